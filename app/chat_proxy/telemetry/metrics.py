"""Prometheus metrics: one class on its own registry, fed by the record; README lists them."""

from collections import Counter as Counts
from pathlib import Path
from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

from chat_proxy.telemetry.observe_many import observe_many
from chat_proxy.telemetry.record import CHAT, RequestRecord

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
RATIOS = (0.5, 0.8, 0.9, 0.95, 0.97, 0.99, 1.01, 1.03, 1.05, 1.1, 1.25, 1.5, 2)
PENDING_RECORDS = 100
WORKER_DEATHS = "worker_deaths"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Everything that is counted; labels come from closed sets only."""

    def __init__(self, multiprocess_dir: str | None = None) -> None:
        self._registry = CollectorRegistry()
        self._multiprocess_dir = multiprocess_dir
        self._pending: list[RequestRecord] = []
        self._running = 0
        if multiprocess_dir is None:
            ProcessCollector(namespace="chat_proxy", registry=self._registry)
        self.requests = self._counter(
            "requests", "Answered requests by route, status and error code.", "route status code"
        )
        self.request_seconds = self._histogram(
            "request_seconds", "Time from a request's first byte to its answer's last.", "route"
        )
        self.upstream_seconds = self._histogram(
            "upstream_first_byte_seconds", "Time until the upstream's answer began.", "route"
        )
        self.in_flight = self._gauge("requests_in_flight", "Requests that are being answered.")
        self.tasks = self._gauge("tasks", "Asyncio tasks that have not ended.")
        self.tokens = self._counter(
            "upstream_tokens",
            "Tokens as the upstream counted them: prompt, completion, cached.",
            "kind",
        )
        self.estimates = self._counter(
            "estimated_tokens", "Prompt tokens as the proxy estimated them before sending."
        )
        self.estimate_ratio = Histogram(
            "chat_proxy_estimate_ratio",
            "The proxy's estimate of a prompt over the upstream's own count.",
            registry=self._registry,
            buckets=RATIOS,
        )
        self.compactions = self._counter(
            "compactions",
            "Chat requests by mode and by what became of them (x-chat-proxy-compaction).",
            "mode outcome",
        )
        self.stages = self._counter(
            "stage_changes",
            "Requests that a stage changed, or in observe mode would have.",
            "stage",
        )
        self.stage_failures = self._counter(
            "stage_failures", "Requests that went on without a stage because it failed.", "stage"
        )
        self.prefix_breaks = self._counter(
            "prefix_breaks", "Compactions: requests that the upstream's prefix cache cannot know."
        )
        self.saved_tokens = self._counter(
            "saved_tokens",
            "Prompt tokens that were not sent, or in observe mode would not have been.",
        )
        self.replays = self._counter(
            "overflow_replay", 'Answers "too long": sent again, or exhausted.', "result"
        )
        self.summaries = self._counter("summaries", "Summaries: written, failed.", "result")
        self.summary_failures = self._counter(
            "summary_fail", "Summaries that could not be had, by reason.", "reason"
        )
        self.summary_waits = self._counter(
            "summary_waits", "Requests that waited for a summary, their own or a shared one."
        )
        self.summary_seconds = self._histogram("summary_seconds", "Time to write a summary.")
        self.side_queries = self._counter(
            "side_queries",
            "Questions to a summary model by shape (ride, transcript) and result.",
            "shape result",
        )
        self.side_query_tokens = self._counter(
            "side_query_tokens", "Tokens of those questions: prompt, completion.", "kind"
        )
        self.offloads = self._counter(
            "offloads",
            "Cut tool results that the store was asked to keep: kept, refused.",
            "result",
        )
        self.skipped = self._counter(
            "compaction_skipped", "Requests left alone: shape, window (nobody knows it).", "reason"
        )
        self.store_errors = self._counter(
            "store_error", "Faults of the store, by operation and kind.", "op kind"
        )
        self.store_degraded = self._gauge(
            "store_degraded", "Workers whose store is away, damaged, full, or memory in its place."
        )
        self.store_log_bytes = self._gauge(
            "store_wal_bytes", "Size of the write-ahead log beside the SQLite file.", "livemax"
        )
        self.bytes = self._counter(
            "bytes", "Bytes of request bodies (in) and answers (out).", "direction"
        )
        self.client_aborts = self._counter(
            "client_abort",
            "Clients that left early: body, ttfb (before the answer), stream.",
            "phase",
        )
        self.client_stalls = self._counter(
            "client_stall", "Clients that stopped reading their answer for too long."
        )
        self.slow_clients = self._counter(
            "slow_client", "Requests that did not arrive in time: headers, body.", "phase"
        )
        self.refused_connections = self._counter(
            "bad_http", "Requests refused before they were understood, by error code.", "code"
        )
        self.retries = self._counter(
            "retry", "Requests sent again because a reused connection was closed.", "reason"
        )
        self.truncated_streams = self._counter(
            "stream_truncated", "Streams that the upstream did not finish."
        )
        self.untapped_streams = self._counter(
            "sse_tap_off", "Streams with a line too long to look at; relayed all the same."
        )
        self.repeated_keys = self._counter(
            "dup_key", "Requests whose JSON had a decisive key twice; the last one counts."
        )
        self.repairs = self._counter(
            "input_repaired",
            "Requests with what our own copies cannot hold, only the upstream's: surrogate.",
            "kind",
        )
        self.rate_limited = self._counter("upstream_429", "Answers with status 429.")
        self.open_breakers = self._gauge(
            "upstream_breakers_open", "Upstreams that are left alone after repeated failures."
        )
        self.worker_deaths = self._counter(
            WORKER_DEATHS, "Workers that died and were replaced, where there are several."
        )
        self.loop_lag = self._histogram(
            "loop_lag_seconds", "How late the event loop was, looked at twice a second."
        )
        self.internal_errors = self._counter(
            "internal_error", "Requests that failed by a mistake in the proxy itself."
        )

    def begin(self) -> None:
        """Count one more request as being answered, until it is observed."""
        self._running += 1

    def observe(self, record: RequestRecord) -> None:
        """Count one finished exchange, soon: see flush."""
        self._running -= 1
        self._pending.append(record)
        if len(self._pending) >= PENDING_RECORDS:
            self.flush()

    def flush(self) -> None:
        """Count the records that wait: many at once cost far less than one by one."""
        pending, self._pending = self._pending, []
        self.in_flight.set(self._running)
        if pending:
            self._count_answers(pending)
            self._observe_figures(pending)
        for record in pending:
            if record.stages or record.failed_stages:
                self._observe_stages(record)
            if record.code or record.retried or record.is_odd or record.status == 429:
                self._observe_trouble(record)

    def _count_answers(self, records: list[RequestRecord]) -> None:
        answers = Counts([(it.route, it.status, it.code) for it in records])
        for (route, status, code), count in answers.items():
            self.requests.labels(route, str(status), code).inc(count)
        chats = Counts([(it.mode, it.compaction) for it in records if it.route == CHAT])
        for (mode, outcome), count in chats.items():
            self.compactions.labels(mode, outcome).inc(count)
        self.bytes.labels("in").inc(sum([it.bytes_in for it in records]))
        self.bytes.labels("out").inc(sum([it.bytes_out for it in records]))
        self.tokens.labels("prompt").inc(sum([it.prompt_tokens for it in records]))
        self.tokens.labels("completion").inc(sum([it.completion_tokens for it in records]))
        self.tokens.labels("cached").inc(sum([it.cached_tokens for it in records]))
        self.estimates.inc(sum([it.tokens_before or 0 for it in records]))

    def _observe_figures(self, records: list[RequestRecord]) -> None:
        for route in {it.route for it in records}:
            of_route = [it for it in records if it.route == route]
            observe_many(self.request_seconds.labels(route), [it.seconds for it in of_route])
            waits = [it.upstream_seconds for it in of_route if it.upstream_seconds is not None]
            if waits:
                observe_many(self.upstream_seconds.labels(route), waits)
        counted = [it for it in records if it.tokens_after and it.prompt_tokens]
        ratios = [(it.tokens_after or 0) / it.prompt_tokens for it in counted]
        observe_many(self.estimate_ratio, ratios)

    def _observe_stages(self, record: RequestRecord) -> None:
        for stage in record.stages:
            self.stages.labels(stage).inc()
        for stage in record.failed_stages:
            self.stage_failures.labels(stage).inc()
        if record.is_break:
            self.prefix_breaks.inc()
        if record.tokens_before and record.tokens_after is not None:
            self.saved_tokens.inc(max(0, record.tokens_before - record.tokens_after))

    def _observe_trouble(self, record: RequestRecord) -> None:
        """Count what went wrong beside the request itself."""
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
        """Return all figures in Prometheus' text form, of all workers if there are several."""
        self.flush()
        if self._multiprocess_dir is None:
            return generate_latest(self._registry)
        summed = CollectorRegistry()
        MultiProcessCollector(summed, path=self._multiprocess_dir)  # type: ignore[no-untyped-call]
        return generate_latest(summed)

    def documented(self) -> list[tuple[str, str, str, str]]:
        """Return name, kind, labels and meaning of every metric, for README."""
        return [_description(value) for value in vars(self).values() if _is_metric(value)]

    def _counter(self, name: str, meaning: str, labels: str = "") -> Counter:
        return Counter(f"chat_proxy_{name}", meaning, labels.split(), registry=self._registry)

    def _gauge(
        self, name: str, meaning: str, across: Literal["livesum", "livemax"] = "livesum"
    ) -> Gauge:
        return Gauge(
            f"chat_proxy_{name}", meaning, registry=self._registry, multiprocess_mode=across
        )

    def _histogram(self, name: str, meaning: str, labels: str = "") -> Histogram:
        return Histogram(
            f"chat_proxy_{name}", meaning, labels.split(), registry=self._registry, buckets=SECONDS
        )


def note_worker_deaths(multiprocess_dir: str, deaths: int) -> None:
    """Put the parent's own figure beside those of its workers, as prometheus_client writes them."""
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
