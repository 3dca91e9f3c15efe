"""Ending an exchange from outside: the client left, time is up, the server stops."""

import asyncio
from math import inf

from chat_proxy.caches import cached_once
from chat_proxy.errors import ProxyError, UpstreamTotalTimeout
from chat_proxy.proxy.lifecycle.cancellation import Cancellation


class Watchdog:
    """The deadlines of one exchange: for the whole, and for the step that it waits for.

    Moving a deadline only stores a number, unless it comes before those of all others.
    """

    __slots__ = ("_deadlines", "_error", "_interrupt", "_last", "_loop", "due")

    def __init__(
        self,
        interrupt: Cancellation,
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

    def expire(self) -> None:
        """End the exchange, whose time is up."""
        self._interrupt.stop(UpstreamTotalTimeout() if self.due >= self._last else self._error())


class Deadlines:
    """One timer for all exchanges, which fires when the soonest deadline has come.

    A timer for each would be set and cancelled with every request, and hardly ever fire.
    """

    def __init__(self) -> None:
        self.fires_at = inf
        self._watched: set[Watchdog] = set()
        self._timer: asyncio.TimerHandle | None = None

    @cached_once
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which all exchanges run."""
        return asyncio.get_running_loop()

    def add(self, watched: Watchdog) -> None:
        """Watch an exchange."""
        self._watched.add(watched)
        if watched.due < self.fires_at:
            self.look_at(watched.due)

    def discard(self, watched: Watchdog) -> None:
        """Forget an exchange, if it is still watched."""
        self._watched.discard(watched)

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
        for watched in [watched for watched in self._watched if watched.due <= now]:
            self._watched.discard(watched)
            watched.expire()
        if self._watched:
            self.look_at(min(watched.due for watched in self._watched))
