"""Name resolution with a short cache, and the last good addresses while a name server fails."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import NamedTuple

import httpx
from aiohappyeyeballs import AddrInfoType

FRESH_SECONDS = 10
LAST_GOOD_SECONDS = 60

Lookup = Callable[[str, int], Awaitable[list[AddrInfoType]]]


class NameNotResolved(httpx.ConnectError):
    """The host's name has no address."""


class Resolved(NamedTuple):
    """The addresses of a name, at least one."""

    addresses: list[AddrInfoType]
    retry_at: float
    """When the name is looked up again; also after a failure, so that not every dial waits."""
    last_good_until: float


async def look_up(host: str, port: int) -> list[AddrInfoType]:
    """Ask the system's resolver, in a thread of the event loop."""
    return list(
        await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
    )


class CachingResolver:
    """Resolve names, keyed by host and port; both come from configuration only, so they are few.

    An answer is used for `FRESH_SECONDS`, and for `LAST_GOOD_SECONDS` while new lookups fail.
    """

    def __init__(
        self,
        lookup: Lookup,
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lookup = lookup
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._known: dict[tuple[str, int], Resolved] = {}
        self._pending: dict[tuple[str, int], asyncio.Task[list[AddrInfoType]]] = {}

    async def resolve(self, host: str, port: int) -> list[AddrInfoType]:
        """Return the host's addresses; raise NameNotResolved without any, not even old ones."""
        literal = _literal(host, port)
        if literal is not None:
            return [literal]
        key = (host, port)
        known = self._known.get(key)
        if known is not None and self._clock() < known.retry_at:
            # The next connection begins with the next address: hosts share the load.
            first, *others = known.addresses
            self._known[key] = known._replace(addresses=[*others, first])
            return known.addresses
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = asyncio.create_task(self._resolve(host, port))
            pending.add_done_callback(self._forget_pending)
        return await asyncio.shield(pending)

    async def close(self) -> None:
        """Stop the lookups that are under way."""
        pending = list(self._pending.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    def _forget_pending(self, task: asyncio.Task[list[AddrInfoType]]) -> None:
        self._pending = {key: it for key, it in self._pending.items() if it is not task}
        if not task.cancelled():
            task.exception()  # each waiting request gets it; without one asyncio would complain

    async def _resolve(self, host: str, port: int) -> list[AddrInfoType]:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                addresses = await self._lookup(host, port)
        except (OSError, UnicodeError) as error:
            known = self._known.get((host, port))
            if known is None or self._clock() > known.last_good_until:
                raise NameNotResolved("the name was not resolved") from error
            retry_at = min(self._clock() + FRESH_SECONDS, known.last_good_until)
            self._known[host, port] = known._replace(retry_at=retry_at)
            return known.addresses
        if not addresses:
            raise NameNotResolved("the name has no address")
        now = self._clock()
        resolved = Resolved(addresses, now + FRESH_SECONDS, now + LAST_GOOD_SECONDS)
        self._known[host, port] = resolved
        return addresses


def _literal(host: str, port: int) -> AddrInfoType | None:
    """Return the address that a host is, None if it is a name."""
    try:
        version = ip_address(host).version
    except ValueError:
        return None
    if version == 4:
        return (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))
    return (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0))
