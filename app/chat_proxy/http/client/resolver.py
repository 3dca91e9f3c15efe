"""Names become addresses; a good address outlives a name server's bad moments."""

import asyncio
import socket
import time
from collections.abc import Callable

from aiohttp.abc import AbstractResolver, ResolveResult

LAST_GOOD_SECONDS = 60


class CachingResolver(AbstractResolver):
    """Asks another resolver, and answers with what was last true while that one fails."""

    def __init__(
        self,
        resolver: AbstractResolver,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resolver = resolver
        self._seconds = seconds
        self._clock = clock
        self._known: dict[tuple[str, int, int], tuple[float, list[ResolveResult]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the host's addresses, or raise OSError when there are none, not even old ones."""
        name = (host, port, family)
        try:
            async with asyncio.timeout(self._seconds):
                addresses = await self._resolver.resolve(host, port, family)
        except OSError as error:
            learned_at, addresses = self._known.get(name, (0.0, []))
            if not addresses or self._clock() - learned_at > LAST_GOOD_SECONDS:
                # aiohttp would take a TimeoutError for the connection's own.
                raise OSError("the name was not resolved") from error
            return addresses
        self._known[name] = (self._clock(), addresses)
        return addresses

    async def close(self) -> None:
        """Close the resolver that is asked."""
        await self._resolver.close()
