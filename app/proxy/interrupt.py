"""Ending an exchange from outside: the client left, time is up, the server stops."""

import asyncio
from math import inf
from types import TracebackType
from typing import Self

from app.errors import ClientGone, ProxyError, UpstreamTotalTimeout


class Interruptible:
    """Wraps the body of an exchange; `stop(reason)` makes it raise that reason where it waits."""

    __slots__ = ("_cancelled_before", "_task", "reason")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._cancelled_before = 0
        self.reason: ProxyError | None = None

    def stop(self, reason: ProxyError) -> None:
        """End the exchange; the first reason counts."""
        if self.reason is None and self._task is not None:
            self.reason = reason
            self._task.cancel()

    def client_left(self) -> None:
        """End an exchange whose client is gone."""
        self.stop(ClientGone())

    def __enter__(self) -> Self:
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancelled_before = task.cancelling()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        places: TracebackType | None,
    ) -> None:
        """Raise the reason in place of our cancellation; somebody else's goes on."""
        task, self._task = self._task, None
        if self.reason is None or task is None:
            return
        is_ours = task.uncancel() <= self._cancelled_before
        if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise self.reason from None


class Watchdog:
    """One lazy timer for all of an exchange's deadlines.

    Moving a deadline only stores a number; the timer looks at it when it fires. It fires first
    after `soonest_seconds`, so that a deadline which is no sooner than that costs nothing.
    """

    __slots__ = ("_deadline", "_error", "_fires_at", "_handle", "_interrupt", "_last", "_loop")

    def __init__(
        self,
        interrupt: Interruptible,
        total_seconds: float,
        seconds: float,
        error: type[ProxyError],
        soonest_seconds: float = inf,
    ) -> None:
        """Watch from now on, with a limit for everything and one for the first step."""
        self._loop = asyncio.get_running_loop()
        self._interrupt = interrupt
        now = self._loop.time()
        self._last = now + total_seconds
        self._deadline = now + seconds
        self._error = error
        self._arm(min(self._deadline, self._last, now + soonest_seconds))

    def expect(self, seconds: float, error: type[ProxyError]) -> None:
        """From now on, `seconds` may pass before the exchange ends with this error."""
        self._deadline = self._loop.time() + seconds
        self._error = error
        if self._deadline < self._fires_at:
            self._handle.cancel()
            self._arm(self._deadline)

    def close(self) -> None:
        """Stop watching."""
        self._handle.cancel()

    def _arm(self, when: float) -> None:
        self._fires_at = when
        self._handle = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        if now >= self._last:
            self._interrupt.stop(UpstreamTotalTimeout())
        elif now >= self._deadline:
            self._interrupt.stop(self._error())
        else:
            self._arm(min(self._deadline, self._last))
