"""How much of each model's rides its upstream had cached: where it is little, none are sent."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from chat_proxy.caches import LruCache
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.telemetry.metrics import Metrics

LEAST_SHARE = 0.5
LEAST_RIDES = 2
NEWEST_RIDES = 4
RETRY_SECONDS = 3_600.0
REMEMBERED_MODELS = 1_000
MODEL_CHARS = 128

STOPPED = "rides are hardly cached: summaries are asked for by transcript"
TRIED_AGAIN = "rides are tried again"


@dataclass(frozen=True, slots=True)
class _Record:
    shares: tuple[float, ...] = ()
    reports: int = 0
    """How many rides had a count of cached tokens, up to LEAST_RIDES."""
    stopped_at: float | None = None


class RideShares:
    """The cached share of the newest rides, keyed by upstream and model; bounded.

    All tenants share it: whether a server caches what it gets again is a property of the server,
    and a share shows nothing of a conversation.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._records: LruCache[tuple[str, str], _Record] = LruCache(REMEMBERED_MODELS)

    def may_ride(self, base_url: str, model: str) -> bool:
        """Return whether a ride is worth its tokens; after an hour without any it is tried."""
        record = self._records.get((base_url, model))
        if record is None or record.stopped_at is None:
            return True
        if self._clock() - record.stopped_at <= RETRY_SECONDS:
            return False
        self._records.put((base_url, model), _Record(reports=record.reports))
        self._metrics.ride_switches.labels("ride").inc()
        log(TRIED_AGAIN, model=model[:MODEL_CHARS])
        return True

    def observe(self, base_url: str, model: str, cached_tokens: int | None, tokens: int) -> None:
        """Record how many of a ride's tokens were cached; None if the upstream reports nothing.

        vLLM and SGLang leave out a count of 0, so nothing means 0 once an upstream has reported.
        """
        record = self._records.get((base_url, model)) or _Record()
        if tokens <= 0 or record.stopped_at is not None:
            return
        if cached_tokens is None and record.reports < LEAST_RIDES:
            return
        newest = (*record.shares, min(1.0, (cached_tokens or 0) / tokens))[-NEWEST_RIDES:]
        reports = min(LEAST_RIDES, record.reports + (cached_tokens is not None))
        record = replace(record, shares=newest, reports=reports)
        share = sum(newest) / len(newest)
        if reports >= LEAST_RIDES and len(newest) >= LEAST_RIDES and share < LEAST_SHARE:
            record = replace(record, stopped_at=self._clock())
            self._metrics.ride_switches.labels("transcript").inc()
            log(STOPPED, WARNING, model=model[:MODEL_CHARS], cached_share=round(share, 2))
        self._records.put((base_url, model), record)
