"""Write-behind: changes are known at once in memory and written to a store a little later."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

CLOSE_SECONDS = 5.0

Write = Callable[[], Awaitable[bool]]
"""Writes what is pending; returns whether nothing is left to be written."""


class WriteBehind:
    """Run `write` in a background task after each `schedule`, once per pause for many changes.

    While `write` returns False it is tried again after the pause, and so it is for a change that
    was scheduled while it ran. It holds one task and no data: what is pending, and its bound,
    belong to the owner.
    """

    def __init__(self, write: Write, pause_seconds: float, *, at_once: bool = False) -> None:
        """Wait for a pause before the first write, unless it is to be made at once."""
        self._write = write
        self._pause_seconds = pause_seconds
        self._at_once = at_once
        self._is_scheduled = False
        self._task: asyncio.Task[None] | None = None

    def schedule(self) -> None:
        """Have pending changes written; call it in the event loop."""
        self._is_scheduled = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Write the rest, if that does not take too long."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        with suppress(TimeoutError):
            await asyncio.wait_for(self._write(), CLOSE_SECONDS)

    async def _run(self) -> None:
        if not self._at_once:
            await asyncio.sleep(self._pause_seconds)
        while self._is_scheduled:
            self._is_scheduled = False
            if not await self._write():
                self._is_scheduled = True
            if self._is_scheduled or self._at_once:
                await asyncio.sleep(self._pause_seconds)
