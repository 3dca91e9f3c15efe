"""A guard against summaries that are bought again and again because none is found again."""

from collections import deque
from dataclasses import dataclass, field
from math import inf

from chat_proxy.caches import BoundedDict, LruCache
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.telemetry.metrics import Metrics

REQUESTS = 40
REQUESTS_TO_RELEASE = 20
LEAST_REUSED = 15
"""How many of the newest requests must have found an earlier decision to end a storm."""
REMEMBERED_MODELS = 2_000


@dataclass(slots=True)
class _Request:
    reuses: bool
    summaries: int = 0


@dataclass(slots=True)
class _Record:
    requests: deque[_Request] = field(default_factory=lambda: deque(maxlen=REQUESTS))
    is_storm: bool = False


class StormGuard:
    """Counts summaries against the requests that could use them, by tenant and model; bounded.

    Where more summaries are started than the maximum per request, over the last forty, folds are
    made without a model, until later requests find such folds again.
    """

    def __init__(self, metrics: Metrics, max_per_request: float) -> None:
        self._metrics = metrics
        self._max_summaries = max_per_request * REQUESTS if max_per_request < 1 else inf
        self._records: LruCache[tuple[str, str], _Record] = LruCache(REMEMBERED_MODELS)
        self._storms: BoundedDict[tuple[str, str], None] = BoundedDict(REMEMBERED_MODELS)

    def storm_count(self) -> int:
        """Return for how many tenants and models no summaries are written now."""
        return len(self._storms)

    def saw_request(self, tenant: str, model: str, *, reuses: bool) -> None:
        """Count a request near its window; `reuses`: an earlier decision about it was found."""
        record = self._record(tenant, model)
        record.requests.append(_Request(reuses))
        if record.is_storm and _is_reused(record):
            record.is_storm = False
            record.requests.clear()
            self._storms.pop((tenant, model), None)
            log("earlier decisions are found again: summaries are written again", model=model)

    def allows(self, tenant: str, model: str) -> bool:
        """Return whether a summary may be started now."""
        record = self._record(tenant, model)
        if record.is_storm:
            self._metrics.summaries.labels("withheld").inc()
        return not record.is_storm

    def started(self, tenant: str, model: str) -> None:
        """Count a summary that was started."""
        record = self._record(tenant, model)
        if not record.requests:
            return
        record.requests[-1].summaries += 1
        total = sum(request.summaries for request in record.requests)
        is_known = len(record.requests) == REQUESTS  # a few new conversations are no storm
        if is_known and total > self._max_summaries and not record.is_storm:
            record.is_storm = True
            self._storms.put((tenant, model), None)
            self._metrics.summary_storms.inc()
            log(
                "summaries are not found again: folds are made without a model",
                WARNING,
                model=model,
                summaries=total,
                requests=REQUESTS,
            )

    def _record(self, tenant: str, model: str) -> _Record:
        record = self._records.get((tenant, model))
        if record is None:
            record = _Record()
            self._records.put((tenant, model), record)
        return record


def _is_reused(record: _Record) -> bool:
    newest = list(record.requests)[-REQUESTS_TO_RELEASE:]
    return sum(request.reuses for request in newest) >= LEAST_REUSED
