"""The Prometheus metrics by name, labels and help text; docs/metrics.md has this order."""

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
RATIOS = (0.5, 0.8, 0.9, 0.95, 0.97, 0.99, 1.01, 1.03, 1.05, 1.1, 1.25, 1.5, 2)
WORKER_DEATHS = "worker_deaths"
SERVED = "model upstream"
"""The labels of what a model served: its name if it is configured or listed, and its base URL."""


class MetricDefinitions:
    """All metrics as attributes, on one registry.

    Labels come from closed sets only: no client can add a series or see another tenant's name.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._define_requests()
        self._define_tokens()
        self._define_compaction()
        self._define_summaries()
        self._define_store()
        self._define_clients()
        self._define_upstream()
        self._define_process()

    def _define_requests(self) -> None:
        """Define the metrics of requests: their number and duration, and how many are running."""
        self.requests = self._counter(
            "requests",
            "Answered requests by route, status, error code, model and upstream.",
            f"route status code {SERVED}",
        )
        self.request_seconds = self._histogram(
            "request_seconds",
            "Time from a request's first byte to its answer's last.",
            f"route {SERVED}",
        )
        self.proxy_seconds = self._histogram(
            "proxy_seconds",
            "Time of the proxy itself before the upstream is called, without waits for summaries.",
            "route",
        )
        self.upstream_seconds = self._histogram(
            "upstream_first_byte_seconds",
            "Time from the call of the upstream until its answer began.",
            f"route {SERVED}",
        )
        self.in_flight = self._gauge("requests_in_flight", "Requests that are being answered.")
        self.tasks = self._gauge("tasks", "Asyncio tasks that have not ended.")

    def _define_tokens(self) -> None:
        """Define the metrics of tokens: the upstream's own counts and the proxy's estimates."""
        self.tokens = self._counter(
            "upstream_tokens",
            "Tokens as the upstream counted them: prompt, completion, cached.",
            f"kind {SERVED}",
        )
        self.estimates = self._counter(
            "estimated_tokens",
            "Prompt tokens as the proxy estimated them before sending.",
            SERVED,
        )
        self.estimate_ratio = Histogram(
            "chat_proxy_estimate_ratio",
            "The proxy's estimate of a prompt over the upstream's own count.",
            SERVED.split(),
            registry=self._registry,
            buckets=RATIOS,
        )

    def _define_compaction(self) -> None:
        """Define the metrics of compaction: outcomes, stages, saved tokens and replays."""
        self.compactions = self._counter(
            "compactions",
            "Chats by wire (chat, responses, messages), mode and x-chat-proxy-compaction.",
            f"wire mode outcome {SERVED}",
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
            SERVED,
        )
        self.replays = self._counter(
            "overflow_replay", 'Answers "too long": sent again, or exhausted.', "result"
        )
        self.recalls = self._counter(
            "recalls", "Messages or searches that models asked for by the recall tool."
        )
        self.recall_rounds = self._counter(
            "recall_rounds", "Answers in which models asked for them; each cost one more call."
        )
        self.recall_tokens = self._counter(
            "recall_tokens", "Tokens that recalled texts added to prompts."
        )
        self.images = self._counter(
            "images",
            "Images to be scaled down: scaled, reused from the cache, or refused by the decoder.",
            "result",
        )
        self.silent_truncations = self._counter(
            "silent_truncation",
            "Answers to prompts that the upstream had truncated: replayed, or relayed.",
            "result",
        )

    def _define_summaries(self) -> None:
        """Define the metrics of summaries and of the queries to summary models."""
        self.summaries = self._counter(
            "summaries", "Summaries: written, failed, withheld by the storm guard.", "result"
        )
        self.summary_storms = self._counter(
            "summaries_storms",
            "Times that summaries were not found again and no more were written.",
        )
        self.summary_failures = self._counter(
            "summaries_fail", "Summaries that could not be written, by reason.", "reason"
        )
        self.summary_waits = self._counter(
            "summaries_waits", "Requests that waited for a summary, their own or a shared one."
        )
        self.summary_wait_seconds = self._histogram(
            "summaries_wait_seconds", "How long those requests waited."
        )
        self.summary_seconds = self._histogram("summaries_seconds", "Time to write a summary.")
        self.side_queries = self._counter(
            "side_queries",
            "Questions to a summary model by shape (ride, transcript) and result.",
            "shape result",
        )
        self.side_query_tokens = self._counter(
            "side_query_tokens", "Tokens of those questions: prompt, completion, cached.", "kind"
        )
        self.ride_switches = self._counter(
            "ride_switches",
            "Models that change to this shape, as their rides are hardly cached or tried again.",
            "shape",
        )

    def _define_store(self) -> None:
        """Define the metrics of offloads, of skipped compaction, and of the store's state."""
        self.offloads = self._counter(
            "offloads",
            "Cut tool results that the store was asked to keep: kept, refused.",
            "result",
        )
        self.skipped = self._counter(
            "compaction_skipped",
            "Chats sent unchanged: shape (not understood), window (unknown), unfit (no form fits), "
            "stored_history (a part of it is at the upstream), contract (the upstream compacts).",
            "reason",
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

    def _define_clients(self) -> None:
        """Define the metrics of clients: bytes, and those that leave, stall or are refused."""
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

    def _define_upstream(self) -> None:
        """Define the metrics of trouble with upstreams and with odd request bodies."""
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
            "Requests with content that only the upstream's copy keeps exactly: surrogate.",
            "kind",
        )
        self.rate_limited = self._counter("upstream_429", "Answers with status 429.")
        self.open_breakers = self._gauge(
            "upstream_breakers_open", "Upstreams whose calls are refused after repeated failures."
        )

    def _define_process(self) -> None:
        """Define the metrics of the process: version, workers, event loop, internal errors."""
        self.build_info = self._gauge(
            "build_info", "The version that runs; always 1.", "livemax", "version python"
        )
        self.worker_deaths = self._counter(
            WORKER_DEATHS, "Workers that died and were replaced, where there are several."
        )
        self.loop_lag = self._histogram(
            "loop_lag_seconds", "How late the event loop was, looked at twice a second."
        )
        self.internal_errors = self._counter(
            "internal_error", "Requests that failed because of an error in the proxy itself."
        )
        self.spans = self._counter(
            "spans", "Spans for a collector of traces by result: exported, failed.", "result"
        )

    def _counter(self, name: str, meaning: str, labels: str = "") -> Counter:
        return Counter(f"chat_proxy_{name}", meaning, labels.split(), registry=self._registry)

    def _gauge(
        self,
        name: str,
        meaning: str,
        across: Literal["livesum", "livemax"] = "livesum",
        labels: str = "",
    ) -> Gauge:
        return Gauge(
            f"chat_proxy_{name}",
            meaning,
            labels.split(),
            registry=self._registry,
            multiprocess_mode=across,
        )

    def _histogram(self, name: str, meaning: str, labels: str = "") -> Histogram:
        return Histogram(
            f"chat_proxy_{name}", meaning, labels.split(), registry=self._registry, buckets=SECONDS
        )
