"""One record for each exchange: headers, log line and metrics are all told from it."""

import time
from dataclasses import dataclass, field

CHAT = "/v1/chat/completions"
MODEL_CHARS = 128


@dataclass(slots=True)
class RequestRecord:
    """What happened to one request, filled in along its journey."""

    request_id: str
    route: str
    method: str
    started: float = field(default_factory=time.perf_counter)
    tenant: str = ""
    model: str = ""
    conversation: str = ""
    """A short name that all requests of one conversation share, where it was found out."""
    streams: bool = False
    mode: str = "on"
    compaction: str = "none"
    status: int = 0
    code: str = ""
    phase: str = "head"
    bytes_in: int = 0
    bytes_out: int = 0
    stages: tuple[str, ...] = ()
    """The stages that changed the conversation, or would have."""
    failed_stages: tuple[str, ...] = ()
    is_break: bool = False
    """Whether this request was compacted anew, which breaks the prompt's prefix."""
    messages_before: int = 0
    messages_after: int = 0
    tokens_before: int | None = None
    tokens_after: int | None = None
    window: int = 0
    window_source: str = ""
    prepared_seconds: float | None = None
    """When the request was ready to be sent; summaries it waited for are in it."""
    upstream_seconds: float | None = None
    retried: bool = False
    replays: int = 0
    """How often the request was sent again because the upstream called it too long."""
    repeats_keys: bool = False
    has_lone_surrogates: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0
    detail: bytes = b""
    """What became of each message, for the operator's page: JSON, a few kilobytes."""

    @property
    def is_odd(self) -> bool:
        """Whether something about the request's JSON is worth counting."""
        return self.repeats_keys or self.has_lone_surrogates

    def settle_mode(self, mode: str) -> None:
        """Note the mode that holds for a chat, first the common one, then its model's own."""
        self.mode = mode
        self.compaction = "off" if mode == "off" else "none"

    def finish(self) -> None:
        """Stop the clock, and keep no more of the model's name than is told: it is the client's."""
        self.seconds = time.perf_counter() - self.started
        self.model = self.model[:MODEL_CHARS]

    def prepared(self) -> None:
        """Note how long it took until the request could be sent."""
        self.prepared_seconds = time.perf_counter() - self.started

    def upstream_answered(self) -> None:
        """Note how long the upstream took to begin."""
        self.upstream_seconds = time.perf_counter() - self.started

    def response_headers(self) -> list[tuple[bytes, bytes]]:
        """Return what the client is told about its request."""
        headers = [
            (b"x-request-id", self.request_id.encode("ascii")),
            (b"x-chat-proxy-compaction", self.compaction.encode("ascii")),
        ]
        if self.tokens_before is not None and self.tokens_after is not None:
            headers.append((b"x-chat-proxy-tokens-before", b"%d" % self.tokens_before))
            headers.append((b"x-chat-proxy-tokens-after", b"%d" % self.tokens_after))
        if self.stages:
            headers.append((b"x-chat-proxy-stages", ",".join(self.stages).encode("ascii")))
        return headers

    def log_fields(self) -> dict[str, object]:
        """Return what the log line says: no text, no header, no key."""
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
        if self.upstream_seconds is not None:
            fields["upstream_ms"] = milliseconds(self.upstream_seconds)
        if self.prompt_tokens:
            fields["prompt_tokens"] = self.prompt_tokens
            fields["completion_tokens"] = self.completion_tokens
            fields["cached_tokens"] = self.cached_tokens
        if self.tokens_before is not None:
            fields["tokens_before"] = self.tokens_before
            fields["tokens_after"] = self.tokens_after
        if self.route == CHAT:
            fields["mode"] = self.mode
            fields["compaction"] = self.compaction
        if self.stages:
            fields["stages"] = ",".join(self.stages)
            fields["messages_before"] = self.messages_before
            fields["messages_after"] = self.messages_after
            fields["new_compaction"] = self.is_break
        if self.replays:
            fields["replays"] = self.replays
        if self.failed_stages:
            fields["failed_stages"] = ",".join(self.failed_stages)
        if self.window:
            fields["window"] = self.window
            fields["window_source"] = self.window_source
        return fields


def milliseconds(seconds: float) -> float:
    """Return a time in milliseconds to the tenth; `round` takes four times as long for it."""
    return int(seconds * 10_000 + 0.5) / 10
