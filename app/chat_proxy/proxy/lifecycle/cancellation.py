"""Cancel a running request: the client disconnected, a deadline passed, the server stops.

One timer serves the deadlines of all requests.
"""

import asyncio
from math import inf
from types import TracebackType
from typing import Self

from chat_proxy.caches import cached_once
from chat_proxy.errors import ClientGone, ProxyError, UpstreamTotalTimeout


class Cancellation:
    """A block that `stop(reason)` cancels from outside; the block then raises the reason."""

    __slots__ = ("_cancelled_before", "_loop", "_task", "reason")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Take the loop if it is known: getting the running one is a system call before 3.12."""
        self._loop = loop
        self._task: asyncio.Task[object] | None = None
        self._cancelled_before = 0
        self.reason: ProxyError | None = None

    def stop(self, reason: ProxyError) -> None:
        """Cancel the block; the first reason counts."""
        if self.reason is None and self._task is not None:
            self.reason = reason
            self._task.cancel()

    def client_left(self) -> None:
        """Cancel the block because the client disconnected."""
        self.stop(ClientGone())

    def __enter__(self) -> Self:
        self._task = task = asyncio.current_task(self._loop)
        assert task is not None
        self._cancelled_before = task.cancelling()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        places: TracebackType | None,
    ) -> None:
        """Raise the reason in place of our cancellation; one from elsewhere propagates.

        It is not kept: its traceback holds the whole request, and that this block. Such a circle
        would stay in memory until the next full garbage collection.
        """
        task, self._task = self._task, None
        reason, self.reason = self.reason, None
        if reason is None or task is None:
            return
        is_ours = task.uncancel() <= self._cancelled_before
        try:
            if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise reason from None
        finally:
            del reason


class Watchdog:
    """The deadlines of one request: for the whole request, and for its current step.

    Moving a deadline only stores a number, unless it becomes the soonest of all.
    """

    __slots__ = ("_cancellation", "_deadlines", "_error", "_last", "_loop", "due")

    def __init__(
        self,
        cancellation: Cancellation,
        deadlines: "Deadlines",
        total_seconds: float,
        seconds: float,
        error: type[ProxyError],
    ) -> None:
        """Start watching, with a limit for the whole request and one for the first step."""
        self._loop = deadlines.loop
        self._cancellation = cancellation
        self._deadlines = deadlines
        now = self._loop.time()
        self._last = now + total_seconds
        self._error = error
        self.due = now + min(seconds, total_seconds)
        deadlines.add(self)

    def expect(self, seconds: float, error: type[ProxyError]) -> None:
        """End the request with this error unless the next call comes within `seconds`."""
        self._error = error
        due = self._loop.time() + seconds
        if due > self._last:  # noqa: PLR1730 - `min` takes as long as the rest, for every piece
            due = self._last
        self.due = due
        if due < self._deadlines.fires_at:
            self._deadlines.set_timer(due)

    def close(self) -> None:
        """Stop watching."""
        self._deadlines.discard(self)

    def expire(self) -> None:
        """Cancel the request because its deadline has passed."""
        self._cancellation.stop(UpstreamTotalTimeout() if self.due >= self._last else self._error())


class Deadlines:
    """One timer for all requests, which fires at the soonest deadline.

    A timer per request would be set and cancelled each time, and hardly ever fire.
    """

    def __init__(self) -> None:
        self.fires_at = inf
        self._watched: set[Watchdog] = set()
        self._timer: asyncio.TimerHandle | None = None

    @cached_once
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which all requests run."""
        return asyncio.get_running_loop()

    def add(self, watched: Watchdog) -> None:
        """Watch a request."""
        self._watched.add(watched)
        if watched.due < self.fires_at:
            self.set_timer(watched.due)

    def discard(self, watched: Watchdog) -> None:
        """Stop watching a request."""
        self._watched.discard(watched)

    def set_timer(self, when: float) -> None:
        """Set the timer to an earlier time."""
        if self._timer is not None:
            self._timer.cancel()
        self.fires_at = when
        self._timer = self.loop.call_at(when, self._expire_due)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.fires_at = None, inf

    def _expire_due(self) -> None:
        """Cancel the requests that are due, and set the timer for the next."""
        now = self.loop.time()
        self._timer, self.fires_at = None, inf
        for watched in [watched for watched in self._watched if watched.due <= now]:
            self._watched.discard(watched)
            watched.expire()
        if self._watched:
            self.set_timer(min(watched.due for watched in self._watched))
