"""A circuit breaker for each upstream: after repeated failures, calls are refused for a while.

Only signs that the upstream is unreachable count: failed connections and resets. Whatever the
upstream says is an answer, 503 too, and one that takes too long may be the request's own fault:
what one tenant asks for must not shut out the others.
"""

import time
from collections.abc import Callable
from functools import partial

from chat_proxy.errors import UpstreamUnavailable

LONGEST_SECONDS = 300
LET_THROUGH_ONE_IN = 10
REMEMBERED = 1_000


Report = Callable[[str, float | None], None]
"""Called with a base URL and for how many seconds its calls are refused; None: it answers again."""


class Breaker:
    """Count the failures of one upstream in a row, and refuse calls once there are too many."""

    def __init__(
        self,
        failures: int,
        seconds: float,
        clock: Callable[[], float],
        report: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        self._limit = failures
        self._report = report
        self._first_seconds = seconds
        self._clock = clock
        self._failures = 0
        self._seconds = seconds
        self._open_until = 0.0
        self._probing = False
        self._refused = 0

    @property
    def is_open(self) -> bool:
        """Whether calls are refused."""
        return self._limit > 0 and self._failures >= self._limit

    def check(self) -> None:
        """Raise UpstreamUnavailable if the call is refused.

        One call probes the upstream when the pause is over, and one in ten always passes: an only
        upstream must not stay shut out because of a wrong guess.
        """
        if self._failures < self._limit or not self._limit:
            return
        if self._clock() >= self._open_until and not self._probing:
            self._probing = True
            return
        self._refused += 1
        if self._refused % LET_THROUGH_ONE_IN:
            wait = max(1, round(self._open_until - self._clock()))
            raise UpstreamUnavailable(retry_after=wait)

    def succeeded(self) -> None:
        """Close the breaker: the upstream answers."""
        if not self._failures:
            return
        if self.is_open:
            self._report(None)
        self._failures = 0
        self._seconds = self._first_seconds
        self._probing = False

    def failed(self, wanted_seconds: float = 0) -> None:
        """Count a failure; one after the pause doubles the pause.

        `wanted_seconds` opens the breaker for at least this long, whatever the count.
        """
        self._failures += 1
        self._probing = False
        now = self._clock()
        if self._failures == self._limit:
            self._open_until = now + self._seconds
            self._report(self._seconds)
        elif self.is_open and now >= self._open_until:
            self._seconds = min(self._seconds * 2, LONGEST_SECONDS)
            self._open_until = now + self._seconds
            self._report(self._seconds)
        if wanted_seconds:
            self._failures = max(self._failures, self._limit)
            self._open_until = max(self._open_until, now + wanted_seconds)

    def probe_cancelled(self) -> None:
        """Discard a probe whose client left before there was a result."""
        self._probing = False


class Breakers:
    """The breakers of all upstreams, keyed by base URL and bounded by REMEMBERED.

    All tenants share them: base URLs come from the configuration, never from a request.
    """

    def __init__(
        self,
        failures: int,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        report: Report = lambda _, __: None,
    ) -> None:
        self._new = partial(Breaker, failures, seconds, clock)
        self._report = report
        self._breakers: dict[str, Breaker] = {}

    def of(self, base_url: str) -> Breaker:
        """Return the breaker of an upstream."""
        breaker = self._breakers.get(base_url)
        if breaker is None:
            if len(self._breakers) >= REMEMBERED:
                self._forget_closed()
            breaker = self._new(partial(self._report, base_url))
            self._breakers[base_url] = breaker
        return breaker

    def _forget_closed(self) -> None:
        """Evict closed breakers, which hold no more than a few failures."""
        open_breakers = {url: each for url, each in self._breakers.items() if each.is_open}
        self._breakers = open_breakers if len(open_breakers) < REMEMBERED else {}

    def open_count(self) -> int:
        """Return the number of upstreams whose calls are refused."""
        return sum(breaker.is_open for breaker in self._breakers.values())
