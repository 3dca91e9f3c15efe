"""What the proxy held over time, and whether it grew."""

import os
from dataclasses import dataclass
from itertools import combinations
from statistics import median

WARM_UP = 0.4
"""The share of a run in which caches fill."""
MOST_BYTES_PER_REQUEST = 64
LEAST_BYTES = 8 * 1024 * 1024
"""Less growth than this is noise, whatever its slope."""
MOST_WAL_BYTES = 72 * 1024 * 1024
POOL_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Threads of asyncio's own pool, which are started when they are first needed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the proxy held at one moment."""

    seconds: float
    requests: int
    rss_bytes: int
    fds: int
    tasks: int
    threads: int
    wal_bytes: int


def slope(points: list[tuple[float, float]]) -> float:
    """Return the median slope between all pairs of points: outliers do not move it."""
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1]
    return median(slopes) if slopes else 0.0


def warm(samples: list[Sample]) -> list[Sample]:
    """Return the samples after the warm-up."""
    begin = samples[-1].seconds * WARM_UP
    return [sample for sample in samples if sample.seconds >= begin]


def bytes_per_request(samples: list[Sample]) -> float:
    """Return how fast the proxy's memory grew after the warm-up."""
    thinned = warm(samples)[:: 1 + len(samples) // 400]
    return slope([(sample.requests, sample.rss_bytes) for sample in thinned])


def complaints_about(samples: list[Sample], before: Sample, after: Sample) -> list[str]:
    """Return what grew; `before` and `after` are the idle proxy."""
    found = []
    steady = warm(samples)
    rate = bytes_per_request(samples)
    gained = rate * (steady[-1].requests - steady[0].requests)
    if rate > MOST_BYTES_PER_REQUEST and gained > LEAST_BYTES:
        found.append(f"memory grew by {rate:.0f} bytes per request, {gained / 1e6:.1f} MB in all")
    for name, more in (("fds", 0), ("tasks", 0), ("threads", POOL_THREADS)):
        at_first, at_last = getattr(before, name), getattr(after, name)
        if at_last > at_first + more:
            found.append(f"{name}: {at_first} before, {at_last} after")
    largest = max(sample.wal_bytes for sample in samples)
    if largest > MOST_WAL_BYTES:
        found.append(f"the WAL grew to {largest / 1e6:.1f} MB")
    return found
