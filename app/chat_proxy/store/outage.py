"""The time in which a server is left alone because it did not answer."""

import asyncio
from collections.abc import Awaitable, Callable

from chat_proxy.store.base import StoreUnavailable

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


class StoreAway(StoreUnavailable):
    """The store does not answer at present; it is asked again until it does."""


class Outage:
    """Begins with a fault, and ends by itself once the server answers again.

    The server is asked behind the scenes: no request pays for finding out that it is still away.
    """

    def __init__(
        self,
        is_back: Callable[[], Awaitable[bool]],
        first_pause_seconds: float = FIRST_PAUSE_SECONDS,
    ) -> None:
        self._is_back = is_back
        self._first_pause_seconds = first_pause_seconds
        self._pause_seconds = first_pause_seconds
        self._asking: asyncio.Task[None] | None = None

    @property
    def is_on(self) -> bool:
        """Whether the server is left alone at present."""
        return self._asking is not None

    def begin(self) -> None:
        """Leave the server alone, longer each time unless it has done something in between."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(self._pause_seconds))
            self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)

    def server_answered(self) -> None:
        """Make the next outage a short one."""
        self._pause_seconds = self._first_pause_seconds

    async def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})
            self._asking = None

    async def _ask(self, pause_seconds: float) -> None:
        is_away = True
        while is_away:
            await asyncio.sleep(pause_seconds)
            is_away = not await self._is_back()
        self._asking = None
