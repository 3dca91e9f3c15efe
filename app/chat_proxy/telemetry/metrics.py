"""Prometheus metrics, counted from the record of each request."""

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Callable, Sequence
from pathlib import Path
from platform import python_version
from typing import NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

from chat_proxy import __version__
from chat_proxy.telemetry.metric_definitions import WORKER_DEATHS, MetricDefinitions
from chat_proxy.telemetry.record import CHAT_ROUTES, RequestRecord

PENDING_RECORDS = 100
MOST_MODELS = 200
OTHER_MODEL = "other"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Served(NamedTuple):
    """The labels of what was served: a model, and the base URL of its upstream."""

    model: str
    upstream: str


class Metrics(MetricDefinitions):
    """Count finished requests by their records, and render all metrics."""

    def __init__(self, multiprocess_dir: str | None = None) -> None:
        registry = CollectorRegistry()
        if multiprocess_dir is None:
            ProcessCollector(namespace="chat_proxy", registry=registry)
        disable_created_metrics()  # type: ignore[no-untyped-call]
        super().__init__(registry)
        self.build_info.labels(__version__, python_version()).set(1)
        self.model_label: Callable[[str, str], str] = lambda _, __: OTHER_MODEL
        """Returns the name of an upstream's model, OTHER_MODEL for one that is not known."""
        self._multiprocess_dir = multiprocess_dir
        self._pending: list[RequestRecord] = []
        self._served: dict[tuple[str, str], Served] = {}

    def observe(self, record: RequestRecord) -> None:
        """Count a finished request, at the next flush."""
        self._pending.append(record)
        if len(self._pending) >= PENDING_RECORDS:
            self.flush()

    def flush(self) -> None:
        """Count the pending records: many at once cost far less than one by one."""
        pending, self._pending = self._pending, []
        groups: dict[Served, list[RequestRecord]] = {}
        for record in pending:
            groups.setdefault(self._served_by(record), []).append(record)
        for served, records in groups.items():
            self._count_answers(served, records)
            self._observe_figures(served, records)
        for record in pending:
            if record.stages or record.failed_stages:
                self._observe_stages(record)
            if record.code or record.retried or record.is_odd or record.status == 429:
                self._observe_trouble(record)

    def _served_by(self, record: RequestRecord) -> Served:
        """Return the labels of a request; names that a client invents share one."""
        key = record.upstream, record.model
        served = self._served.get(key)
        if served is None:
            label = record.model and self.model_label(*key)
            if len(self._served) >= MOST_MODELS:
                label = OTHER_MODEL
            served = Served(label, record.upstream)
            if label != OTHER_MODEL:
                self._served[key] = served
        return served

    def _count_answers(self, served: Served, records: list[RequestRecord]) -> None:
        answers = Counts([(each.route, each.status, each.code) for each in records])
        for (route, status, code), count in answers.items():
            self.requests.labels(route, str(status), code, *served).inc(count)
        chats = [each for each in records if each.route in CHAT_ROUTES]
        outcomes = Counts([(each.wire, each.mode, each.compaction) for each in chats])
        for labels, count in outcomes.items():
            self.compactions.labels(*labels, *served).inc(count)
        self.bytes.labels("in").inc(sum([each.bytes_in for each in records]))
        self.bytes.labels("out").inc(sum([each.bytes_out for each in records]))
        if not served.model:
            return
        tokens = self.tokens.labels
        tokens("prompt", *served).inc(sum([each.prompt_tokens for each in records]))
        tokens("completion", *served).inc(sum([each.completion_tokens for each in records]))
        tokens("cached", *served).inc(sum([each.cached_tokens for each in records]))
        self.estimates.labels(*served).inc(sum([each.tokens_before or 0 for each in chats]))

    def _observe_figures(self, served: Served, records: list[RequestRecord]) -> None:
        for route in {each.route for each in records}:
            of_route = [each for each in records if each.route == route]
            seconds = [each.seconds for each in of_route]
            observe_many(self.request_seconds.labels(route, *served), seconds)
            sent = [each for each in of_route if each.prepared_seconds is not None]
            if sent:
                own = [each.proxy_seconds or 0.0 for each in sent]
                observe_many(self.proxy_seconds.labels(route), own)
            waits = [each.upstream_seconds for each in sent if each.upstream_seconds is not None]
            if waits:
                observe_many(self.upstream_seconds.labels(route, *served), waits)
        waited = [each.summary_wait_seconds for each in records if each.summary_wait_seconds]
        if waited:
            observe_many(self.summary_wait_seconds, waited)
        counted = [each for each in records if each.tokens_after and each.prompt_tokens]
        ratios = [(each.tokens_after or 0) / each.prompt_tokens for each in counted]
        if ratios:
            observe_many(self.estimate_ratio.labels(*served), ratios)

    def _observe_stages(self, record: RequestRecord) -> None:
        for stage in record.stages:
            self.stages.labels(stage).inc()
        for stage in record.failed_stages:
            self.stage_failures.labels(stage).inc()
        if record.is_break:
            self.prefix_breaks.inc()
        if record.tokens_before and record.tokens_after is not None:
            saved = max(0, record.tokens_before - record.tokens_after)
            self.saved_tokens.labels(*self._served_by(record)).inc(saved)

    def _observe_trouble(self, record: RequestRecord) -> None:
        """Count retries, odd request bodies and failures."""
        if record.retried:
            self.retries.labels("reused_conn").inc()
        if record.repeats_keys:
            self.repeated_keys.inc()
        if record.has_lone_surrogates:
            self.repairs.labels("surrogate").inc()
        if record.status == 429:
            self.rate_limited.inc()
        if record.code == "client_closed_request":
            self.client_aborts.labels(record.phase).inc()
        elif record.code == "client_stalled":
            self.client_stalls.inc()
        elif record.code == "upstream_truncated":
            self.truncated_streams.inc()
        elif record.code == "internal_error":
            self.internal_errors.inc()

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format, summed over all workers."""
        self.flush()
        if self._multiprocess_dir is None:
            return generate_latest(self._registry)
        summed = CollectorRegistry()
        MultiProcessCollector(summed, path=self._multiprocess_dir)  # type: ignore[no-untyped-call]
        return generate_latest(summed)

    def documented(self) -> list[tuple[str, str, str, str]]:
        """Return name, type, labels and help text of every metric, for its table."""
        return [_description(value) for value in vars(self).values() if _is_metric(value)]


def observe_many(histogram: Histogram, amounts: Sequence[float]) -> None:
    """Observe all amounts in a histogram, with one update for each bucket that changes.

    The library takes a lock for each single one.
    """
    bounds, buckets = histogram._upper_bounds, histogram._buckets  # noqa: SLF001
    histogram._sum.inc(sum(amounts))  # noqa: SLF001
    for place, count in Counts([bisect_left(bounds, amount) for amount in amounts]).items():
        buckets[place].inc(count)


def note_worker_deaths(multiprocess_dir: str, deaths: int) -> None:
    """Write the parent's count beside its workers' metrics, in prometheus_client's file format."""
    name = f"chat_proxy_{WORKER_DEATHS}"
    file = MmapedDict(str(Path(multiprocess_dir, "counter_parent.db")))  # type: ignore[no-untyped-call]
    file.write_value(mmap_key(name, f"{name}_total", [], [], ""), deaths, 0)  # type: ignore[no-untyped-call]
    file.close()  # type: ignore[no-untyped-call]


def _is_metric(value: object) -> bool:
    return isinstance(value, MetricWrapperBase)


def _description(metric: MetricWrapperBase) -> tuple[str, str, str, str]:
    family = next(iter(metric.describe()))
    name = family.name + ("_total" if family.type == "counter" else "")
    return name, family.type, ", ".join(metric._labelnames), family.documentation  # noqa: SLF001
