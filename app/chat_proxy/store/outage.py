"""Backing off from a store server that does not answer."""

import asyncio
from collections.abc import Awaitable, Callable

from chat_proxy.store.base import StoreUnavailable

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


class StoreUnreachable(StoreUnavailable):
    """The store does not answer now; it is probed until it does."""


class Outage:
    """A period without requests to a server; it starts with a fault and ends when a probe succeeds.

    Probes run in the background, so that no request waits for a server that is still down.
    """

    def __init__(
        self,
        is_back: Callable[[], Awaitable[bool]],
        first_pause_seconds: float = FIRST_PAUSE_SECONDS,
    ) -> None:
        self._is_back = is_back
        self._first_pause_seconds = first_pause_seconds
        self._pause_seconds = first_pause_seconds
        self._probing: asyncio.Task[None] | None = None

    @property
    def is_on(self) -> bool:
        """Whether the server must not be used now."""
        return self._probing is not None

    def begin(self) -> None:
        """Start an outage, with a longer pause each time unless the server has answered since."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe(self._pause_seconds))
            self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)

    def server_answered(self) -> None:
        """Reset the pause of the next outage."""
        self._pause_seconds = self._first_pause_seconds

    async def close(self) -> None:
        """Stop probing."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait({self._probing})
            self._probing = None

    async def _probe(self, pause_seconds: float) -> None:
        is_down = True
        while is_down:
            await asyncio.sleep(pause_seconds)
            is_down = not await self._is_back()
        self._probing = None
