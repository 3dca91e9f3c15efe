"""The record of one request, from which headers, log line, metrics and dashboard are made."""

import time
from dataclasses import dataclass, field
from typing import Final

from chat_proxy.telemetry.tracing.span import NO_SPAN, RequestSpan
from chat_proxy.wires.recognise import WIRES

CHAT_ROUTES: Final = {f"/v1{wire.path}": wire.name for wire in WIRES}
"""The routes of chats, each with the name of its wire."""
MODEL_CHARS = 128
_REFUSED_AS_SENT = (400, 413, 422)
_PROMPT_AND_ANSWER = (
    "compaction",
    "stages",
    "failed_stages",
    "is_break",
    "messages_after",
    "tokens_after",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "chat",
)


@dataclass(slots=True)
class RequestRecord:
    """What happened to one request, filled in while it is handled."""

    request_id: str
    route: str
    method: str
    started: float = field(default_factory=time.perf_counter)
    client: str = ""
    """The client's address; empty unless it is to be logged."""
    tenant: str = ""
    model: str = ""
    conversation: str = ""
    """A short name that all requests of one conversation share; empty if it is unknown."""
    streams: bool = False
    mode: str = "on"
    compaction: str = "none"
    status: int = 0
    code: str = ""
    command: str = ""
    """The command that the proxy answered in the model's place; empty for an ordinary chat."""
    phase: str = "head"
    bytes_in: int = 0
    bytes_out: int = 0
    stages: tuple[str, ...] = ()
    """The stages that changed the conversation, or in observe mode would have."""
    failed_stages: tuple[str, ...] = ()
    is_break: bool = False
    """Whether this request has a new compaction, which changes the prompt's prefix."""
    messages_before: int = 0
    messages_after: int = 0
    tokens_before: int | None = None
    tokens_after: int | None = None
    unfit: str = ""
    """Why no form of the request fits the window, one sentence with numbers."""
    upstream: str = ""
    """The base URL that the request is sent to, which never holds credentials."""
    reason: str = ""
    """Why the request failed or was not compacted, one sentence without a client's text."""
    warns: bool = False
    """Whether the reason is one that the operator should see, not the client's own mistake."""
    window: int = 0
    window_source: str = ""
    prepared_seconds: float | None = None
    """Time until the request was ready to be sent, waits for summaries included; replays add."""
    summary_wait_seconds: float = 0.0
    """The part of it that the request waited for summaries."""
    upstream_seconds: float | None = None
    """Time from each call of the upstream until its answer began; None if none answered."""
    called: float = 0.0
    """When the upstream was called last."""
    retried: bool = False
    checkpoint: str = ""
    """The id of the conversation's folded messages; empty if nothing is folded."""
    recalls: int = 0
    """How often the model asked for messages that had left its prompt."""
    recall_rounds: int = 0
    recall_tokens: int = 0
    """The tokens that recalled texts added to prompts."""
    replays: int = 0
    """How often the request was sent again because the upstream refused it as too long."""
    repeats_keys: bool = False
    has_lone_surrogates: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0
    span: RequestSpan = NO_SPAN
    """The request's part in a trace; it does nothing while traces are off."""
    chat: object | None = None
    """What a chat's detail is made from when its answer has been sent."""
    page_headers: tuple[tuple[bytes, bytes], ...] = ()
    """The headers that let the web page which sent the request read the answer."""
    detail: bytes = b""
    """The outcome for each message, for the dashboard: JSON, a few kilobytes."""

    @property
    def wire(self) -> str:
        """The wire of a chat; empty for any other request."""
        return CHAT_ROUTES.get(self.route, "")

    @property
    def is_odd(self) -> bool:
        """Whether the request's JSON has repeated keys or lone surrogates."""
        return self.repeats_keys or self.has_lone_surrogates

    def set_mode(self, mode: str) -> None:
        """Set the mode of a chat: first the common one, then that of its model."""
        self.mode = mode
        self.compaction = "off" if mode == "off" else "none"

    def finish(self) -> None:
        """Set the duration, and cut the model's name to MODEL_CHARS: the client chooses it."""
        self.seconds = time.perf_counter() - self.started
        self.model = self.model[:MODEL_CHARS]

    def explain(self, sentence: str, *, warns: bool = True) -> None:
        """Record why the request was not compacted as it should be; the first reason stays."""
        self.reason = self.reason or sentence
        self.warns = self.warns or warns

    def explain_failure(self, sentence: str, status: int, *, warns: bool) -> None:
        """Record why the request failed, unless it was refused because it was not compacted."""
        if self.compaction != "failed-open" or status not in _REFUSED_AS_SENT:
            self.reason = sentence
        self.warns = self.warns or warns

    def upstream_called(self) -> None:
        """Record that the request is ready and sent now."""
        self.called = time.perf_counter()
        self.prepared_seconds = self.called - self.started - (self.upstream_seconds or 0.0)

    def upstream_answered(self) -> None:
        """Record that the upstream begins to answer."""
        seconds = time.perf_counter() - self.called
        self.upstream_seconds = seconds + (self.upstream_seconds or 0.0)

    @property
    def proxy_seconds(self) -> float | None:
        """The time that the proxy itself took until the upstream was called."""
        if self.prepared_seconds is None:
            return None
        return self.prepared_seconds - self.summary_wait_seconds

    def set_usage(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> None:
        """Record the upstream's own token counts."""
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens
        self.cached_tokens = cached_tokens

    def take_back(self, earlier: "RequestRecord") -> None:
        """Describe the prompt and answer of an earlier copy again: a later try gave no answer."""
        for name in _PROMPT_AND_ANSWER:
            setattr(self, name, getattr(earlier, name))

    def response_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that describe the request's handling to the client."""
        headers = [
            (b"x-request-id", self.request_id.encode("ascii")),
            (b"x-chat-proxy-compaction", self.compaction.encode("ascii")),
        ]
        if self.tokens_before is not None and self.tokens_after is not None:
            headers.append((b"x-chat-proxy-tokens-before", b"%d" % self.tokens_before))
            headers.append((b"x-chat-proxy-tokens-after", b"%d" % self.tokens_after))
        if self.unfit:
            headers.append((b"x-chat-proxy-unfit", self.unfit.encode("ascii")))
        if self.checkpoint:
            headers.append((b"x-chat-proxy-checkpoint", self.checkpoint.encode("ascii")))
        if self.recalls:
            headers.append((b"x-chat-proxy-recalls", b"%d" % self.recalls))
        if self.stages:
            headers.append((b"x-chat-proxy-stages", ",".join(self.stages).encode("ascii")))
        if self.upstream_seconds is not None:
            headers.append((b"server-timing", self._timing(self.upstream_seconds)))
        headers += self.page_headers
        return headers

    def _timing(self, upstream_seconds: float) -> bytes:
        """Return where the time until the answer began was spent, as browsers show it."""
        proxy = (self.proxy_seconds or 0.0) * 1000
        upstream = upstream_seconds * 1000
        if not self.summary_wait_seconds:
            return b"proxy;dur=%.1f, upstream;dur=%.1f" % (proxy, upstream)
        waited = self.summary_wait_seconds * 1000
        return b"proxy;dur=%.1f, summary;dur=%.1f, upstream;dur=%.1f" % (proxy, waited, upstream)

    def log_fields(self) -> dict[str, object]:
        """Return the fields of the log line: no text, no header, no key."""
        fields: dict[str, object] = {
            "request_id": self.request_id,
            "tenant": self.tenant[:12],
            "route": self.route,
            "method": self.method,
            "model": self.model[:MODEL_CHARS],
            "stream": self.streams,
            "status": self.status,
            "code": self.code,
            "phase": self.phase,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "ms": milliseconds(self.seconds),
        }
        if self.client:
            fields["client"] = self.client
        if trace_id := self.span.trace_id:
            fields["trace_id"] = trace_id
        self._add_times(fields)
        if self.prompt_tokens:
            fields["prompt_tokens"] = self.prompt_tokens
            fields["completion_tokens"] = self.completion_tokens
            fields["cached_tokens"] = self.cached_tokens
        if self.tokens_before is not None:
            fields["tokens_before"] = self.tokens_before
            fields["tokens_after"] = self.tokens_after
        if wire := self.wire:
            fields["wire"] = wire
            fields["mode"] = self.mode
            fields["compaction"] = self.compaction
        if self.stages:
            fields["stages"] = ",".join(self.stages)
            fields["messages_before"] = self.messages_before
            fields["messages_after"] = self.messages_after
            fields["new_compaction"] = self.is_break
        if self.unfit:
            fields["unfit"] = self.unfit
        if self.reason:
            fields["reason"] = self.reason
        if self.recalls:
            fields["recalls"] = self.recalls
            fields["recall_rounds"] = self.recall_rounds
            fields["recall_tokens"] = self.recall_tokens
        if self.replays:
            fields["replays"] = self.replays
        if self.failed_stages:
            fields["failed_stages"] = ",".join(self.failed_stages)
        if self.window:
            fields["window"] = self.window
            fields["window_source"] = self.window_source
        return fields

    def _add_times(self, fields: dict[str, object]) -> None:
        """Add where the time was spent, as far as it is known."""
        if self.prepared_seconds is not None:
            own = self.prepared_seconds - self.summary_wait_seconds
            fields["proxy_ms"] = milliseconds(own)
        if self.summary_wait_seconds:
            fields["summary_wait_ms"] = milliseconds(self.summary_wait_seconds)
        if self.upstream_seconds is not None:
            fields["upstream_ms"] = milliseconds(self.upstream_seconds)


def milliseconds(seconds: float) -> float:
    """Return a time in milliseconds with one decimal; `round` would take four times as long."""
    return int(seconds * 10_000 + 0.5) / 10
