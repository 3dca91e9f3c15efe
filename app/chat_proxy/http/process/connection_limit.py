"""As many connections as there are file descriptors for; more are told so before they run out.

Without descriptors no upstream could be reached, so half of them are kept for that side.
"""

import asyncio
import sys
from typing import Any

from chat_proxy.errors import TooManyConnections
from chat_proxy.http.server.protocol import GuardedProtocol

WANTED_DESCRIPTORS = 65_536
RESERVED_DESCRIPTORS = 64
RETRY_SECONDS = 1


class LimitedProtocol(GuardedProtocol):
    """A connection that may be one too many: its first request is refused, those before go on.

    Who only asks how things are needs no room.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int, **options: Any) -> None:
        super().__init__(**options)
        self._most = most

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count it; where even refusals become too many it is broken off at once."""
        super().connection_made(transport)
        beyond = len(self.server_state.connections) - self._most
        if beyond > 0:
            self.unwelcome = TooManyConnections(retry_after=RETRY_SECONDS)
        if beyond > RESERVED_DESCRIPTORS // 4:
            transport.abort()


def most_connections() -> int:
    """Return how many clients this process has descriptors for: one each, one for its upstream."""
    if sys.platform == "win32":
        return WANTED_DESCRIPTORS
    import resource  # noqa: PLC0415 - not on Windows

    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return WANTED_DESCRIPTORS
    return max(1, (descriptors - RESERVED_DESCRIPTORS) // 2)


def take_more_descriptors() -> None:
    """Raise this process' own limit as far as it may; the usual 1,024 are for 480 streams."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    wanted = min(WANTED_DESCRIPTORS, allowed)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
