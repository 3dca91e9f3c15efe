"""Ending an exchange from outside: the client left, time is up, the server stops."""

import asyncio
from math import inf
from types import TracebackType
from typing import Self

from app.chat.once import once
from app.errors import ClientGone, ProxyError, UpstreamTotalTimeout


class Interruptible:
    """Wraps the body of an exchange; `stop(reason)` makes it raise that reason where it waits."""

    __slots__ = ("_cancelled_before", "_loop", "_task", "reason")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Be of this loop, or of whichever runs: to ask for that is a system call before 3.12."""
        self._loop = loop
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
        """Raise the reason in place of our cancellation; somebody else's goes on."""
        task, self._task = self._task, None
        if self.reason is None or task is None:
            return
        is_ours = task.uncancel() <= self._cancelled_before
        if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise self.reason from None


class Watchdog:
    """The deadlines of one exchange: for the whole, and for the step that it waits for.

    Moving a deadline only stores a number, unless it comes before those of all others.
    """

    __slots__ = ("_deadlines", "_error", "_interrupt", "_last", "_loop", "due")

    def __init__(
        self,
        interrupt: Interruptible,
        deadlines: "Deadlines",
        total_seconds: float,
        seconds: float,
        error: type[ProxyError],
    ) -> None:
        """Watch from now on, with a limit for everything and one for the first step."""
        self._loop = deadlines.loop
        self._interrupt = interrupt
        self._deadlines = deadlines
        now = self._loop.time()
        self._last = now + total_seconds
        self._error = error
        self.due = now + min(seconds, total_seconds)
        deadlines.add(self)

    def expect(self, seconds: float, error: type[ProxyError]) -> None:
        """From now on, `seconds` may pass before the exchange ends with this error."""
        self._error = error
        self.due = min(self._loop.time() + seconds, self._last)
        if self.due < self._deadlines.fires_at:
            self._deadlines.look_at(self.due)

    def close(self) -> None:
        """Stop watching."""
        self._deadlines.discard(self)

    def bite(self) -> None:
        """End the exchange, whose time is up."""
        self._interrupt.stop(UpstreamTotalTimeout() if self.due >= self._last else self._error())


class Deadlines:
    """One timer for all exchanges, which fires when the soonest deadline has come.

    A timer for each would be set and cancelled with every request, and hardly ever fire.
    """

    def __init__(self) -> None:
        self.fires_at = inf
        self._dogs: set[Watchdog] = set()
        self._timer: asyncio.TimerHandle | None = None

    @once
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which all exchanges run."""
        return asyncio.get_running_loop()

    def add(self, dog: Watchdog) -> None:
        """Watch an exchange."""
        self._dogs.add(dog)
        if dog.due < self.fires_at:
            self.look_at(dog.due)

    def discard(self, dog: Watchdog) -> None:
        """Forget an exchange, if it is still watched."""
        self._dogs.discard(dog)

    def look_at(self, when: float) -> None:
        """Look then, in place of later."""
        if self._timer is not None:
            self._timer.cancel()
        self.fires_at = when
        self._timer = self.loop.call_at(when, self._look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.fires_at = None, inf

    def _look(self) -> None:
        """End what is due, and be back for the next."""
        now = self.loop.time()
        self._timer, self.fires_at = None, inf
        for dog in [dog for dog in self._dogs if dog.due <= now]:
            self._dogs.discard(dog)
            dog.bite()
        if self._dogs:
            self.look_at(min(dog.due for dog in self._dogs))
