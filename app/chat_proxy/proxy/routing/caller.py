"""The client that sent a request: its tenant, and the credentials it brought."""

from dataclasses import dataclass

from chat_proxy.http.headers import RawHeaders

ANONYMOUS_TENANT = "anonymous"


@dataclass(frozen=True, slots=True)
class Caller:
    """A client; its `credentials` are forwarded unless the proxy holds a key for the upstream."""

    tenant: str
    credentials: RawHeaders


def salt_of(tenant: str) -> int:
    """Return what sets the keys of a tenant's cached texts apart from those of other tenants.

    Python hashes strings with a secret of the process, so that nobody can compute a salt.
    """
    return hash(("salt", tenant))


ANONYMOUS = Caller(ANONYMOUS_TENANT, [])
"""A client without credentials."""
