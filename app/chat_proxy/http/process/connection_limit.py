"""A limit on client connections, so that file descriptors remain for connections to upstreams."""

import asyncio
import resource
from typing import Any

from chat_proxy.errors import TooManyConnections
from chat_proxy.http.server.protocol import GuardedProtocol

WANTED_DESCRIPTORS = 65_536
RESERVED_DESCRIPTORS = 64
RETRY_SECONDS = 1


class LimitedProtocol(GuardedProtocol):
    """A connection that may exceed the limit: its first `/v1/` request is refused then.

    Health checks are answered all the same.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int, **options: Any) -> None:
        super().__init__(**options)
        self._most = most

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection; far beyond the limit it is closed without a refusal."""
        super().connection_made(transport)
        beyond = len(self.server_state.connections) - self._most
        if beyond > 0:
            self.unwelcome = TooManyConnections(retry_after=RETRY_SECONDS)
        if beyond > RESERVED_DESCRIPTORS // 4:
            transport.abort()


def most_connections() -> int:
    """Return how many clients fit: each needs a descriptor, and one for its upstream."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return WANTED_DESCRIPTORS
    return max(1, (descriptors - RESERVED_DESCRIPTORS) // 2)


def take_more_descriptors() -> None:
    """Raise the process' own limit as far as allowed; the usual 1,024 suffice for 480 streams."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    wanted = min(WANTED_DESCRIPTORS, allowed)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
