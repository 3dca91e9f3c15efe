"""A breaker for each upstream: after connection failures in a row, refuse at once for a while.

Only what says "nobody is there" counts: failed connections, broken or missing answers, and 502,
503, 504. A plain 500 is an answer: one client's poisonous request must not shut out all others.
"""

import time
from collections.abc import Callable
from functools import partial

from chat_proxy.errors import UpstreamUnavailable

LONGEST_SECONDS = 300
LET_THROUGH_ONE_IN = 10
REMEMBERED = 1_000


class Breaker:
    """Counts one upstream's failures and says when to leave it alone."""

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float]) -> None:
        self._limit = failures
        self._first_seconds = seconds
        self._clock = clock
        self._failures = 0
        self._seconds = seconds
        self._open_until = 0.0
        self._probing = False
        self._refused = 0

    @property
    def is_open(self) -> bool:
        """Whether calls are refused at present."""
        return self._limit > 0 and self._failures >= self._limit

    def check(self) -> None:
        """Let the call pass or raise UpstreamUnavailable.

        One call probes when the time is up, and one in ten always flows: the only upstream there
        is must not stay ejected because of a wrong guess.
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
        """Close the breaker: somebody is there."""
        self._failures = 0
        self._seconds = self._first_seconds
        self._probing = False

    def failed(self, wanted_seconds: float = 0) -> None:
        """Count a failure; one after the pause doubles it, and a wish for a pause is granted."""
        self._failures += 1
        self._probing = False
        now = self._clock()
        if self._failures == self._limit:
            self._open_until = now + self._seconds
        elif self.is_open and now >= self._open_until:
            self._seconds = min(self._seconds * 2, LONGEST_SECONDS)
            self._open_until = now + self._seconds
        if wanted_seconds:
            self._failures = max(self._failures, self._limit)
            self._open_until = max(self._open_until, now + wanted_seconds)

    def undecided(self) -> None:
        """Forget a probe whose client left before it could tell anything."""
        self._probing = False


class Breakers:
    """The breakers of all upstreams, by base URL."""

    def __init__(
        self, failures: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._new = partial(Breaker, failures, seconds, clock)
        self._breakers: dict[str, Breaker] = {}

    def of(self, base_url: str) -> Breaker:
        """Return the upstream's breaker."""
        breaker = self._breakers.get(base_url)
        if breaker is None:
            if len(self._breakers) >= REMEMBERED:
                self._forget_closed()
            self._breakers[base_url] = breaker = self._new()
        return breaker

    def _forget_closed(self) -> None:
        """Make room: a closed breaker has nothing to remember but a failure or two."""
        open_ones = {name: it for name, it in self._breakers.items() if it.is_open}
        self._breakers = open_ones if len(open_ones) < REMEMBERED else {}

    def open_ones(self) -> int:
        """Return how many upstreams are left alone at present."""
        return sum(breaker.is_open for breaker in self._breakers.values())
