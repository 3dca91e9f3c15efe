"""Who sent a request: whose tenant it is, and what the upstream is told about it."""

from dataclasses import dataclass

from chat_proxy.http.headers import RawHeaders

ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class Caller:
    """A client as the proxy knows it; `credentials` go upstream unless we hold a key for it."""

    tenant: str
    credentials: RawHeaders


NOBODY = Caller(ANONYMOUS, [])
"""Who carries no credential."""
