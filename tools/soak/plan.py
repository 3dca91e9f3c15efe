"""What is to go wrong with each request; the upstream reads it from the request's id."""

from dataclasses import dataclass
from itertools import count
from random import Random

from tools.soak.options import Options

ABORTS = ("upload", "waiting", "hurried", "reading")
"""In the middle of the upload; while the upstream thinks; at once; in the middle of the stream."""
FAULTS = ("refuse", "reset", "truncate", "limit", "break", "stall", "overflow")
FINE = "fine"
NOBODY = "nobody"
"""A model whose upstream refuses every connection."""

# Streams that broke off end with an error event under a status that was sent long before.
EXPECTED: dict[str, set[int]] = {
    FINE: {200},
    "refuse": {502, 503},
    "reset": {200, 502},
    "truncate": {200, 502},
    "limit": {429},
    "break": {500},
    "stall": {200, 504},
    "overflow": {200, 400},
}


@dataclass(frozen=True, slots=True)
class Errand:
    """One request: its id, and what goes wrong with it."""

    request_id: str
    trouble: str
    streams: bool

    @property
    def is_abort(self) -> bool:
        return self.trouble in ABORTS


class Plan:
    """Deals out the troubles in their shares."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._random = Random(options.seed)
        self._numbers = count()

    def next_errand(self) -> Errand:
        """Return the next request's fate."""
        trouble = self._trouble()
        streams = trouble in ("reading", "stall") or self._random.random() < 0.6
        return Errand(f"soak-{next(self._numbers)}-{trouble}", trouble, streams)

    def store_fails(self) -> bool:
        """Tell whether the store fails at this request."""
        return self._random.random() < self._options.store_fault_share

    def _trouble(self) -> str:
        drawn = self._random.random() - self._options.abort_share
        if drawn < 0:
            return self._random.choice(ABORTS)
        if drawn < self._options.fault_share:
            return self._random.choice(FAULTS)
        return FINE


def trouble_of(request_id: str | None) -> str:
    """Return what is to go wrong with a request, as its id says."""
    if request_id is None or not request_id.startswith("soak-"):
        return FINE
    return request_id.rpartition("-")[2]
