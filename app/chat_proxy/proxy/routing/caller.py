"""The client that sent a request: its tenant, and the credentials it brought."""

from dataclasses import dataclass

from chat_proxy.http.headers import RawHeaders

ANONYMOUS_TENANT = "anonymous"


@dataclass(frozen=True, slots=True)
class Caller:
    """A client; its `credentials` are forwarded unless the proxy holds a key for the upstream."""

    tenant: str
    credentials: RawHeaders


ANONYMOUS = Caller(ANONYMOUS_TENANT, [])
"""A client without credentials."""
