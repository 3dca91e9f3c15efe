"""Whole completions for the proxy's own queries, streamed so that no gateway times out."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from chat_proxy.errors import UpstreamInvalidResponse, UpstreamResponseTooLarge, UpstreamTruncated
from chat_proxy.http.headers import value_of
from chat_proxy.upstream.client import Call, Reply, Upstream
from chat_proxy.upstream.usage import Usage, cached_tokens_in, read_leniently, usage_of

MAX_BYTES = 4 * 1024 * 1024
REFUSAL_BYTES = 16 * 1024
LONGEST_PAUSE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Completion:
    """The first choice of a model's answer; its reasoning is noted but not kept."""

    text: str
    finish_reason: str | None
    calls_tools: bool
    refuses: bool
    usage: Usage | None
    cached_tokens: int | None = None
    """The prompt tokens that came from a cache, None if the upstream does not report them."""


class NotAnswered(Exception):
    """The upstream answered with an error status.

    `retry_after` is the pause it asks for in seconds, `said` its explanation of a 400 or a 422.
    """

    def __init__(self, status: int, retry_after: float | None, said: bytes = b"") -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.retry_after = retry_after
        self.said = said


async def complete(upstream: Upstream, call: Call) -> Completion:
    """Send a call and return its completion, read to the end.

    Raise NotAnswered for an error status, an UpstreamError if there is no readable answer.
    """
    reply = await upstream.send(call)
    try:
        if reply.status in (400, 422):
            raise NotAnswered(reply.status, retry_after(reply), await _read_refusal(reply))
        if reply.status != 200:
            raise NotAnswered(reply.status, retry_after(reply))
        body = await _read(reply)
    finally:
        reply.release()
    if reply.content_type == b"text/event-stream":
        return completion_in_events(body)
    return completion_in_document(body)


def retry_after(reply: Reply) -> float | None:
    """Return the seconds in Retry-After, at most LONGEST_PAUSE_SECONDS; None for a date."""
    seconds = value_of(reply.headers, b"retry-after").strip()
    return min(float(seconds), LONGEST_PAUSE_SECONDS) if seconds.isdigit() else None


async def _read(reply: Reply) -> bytes:
    if reply.is_encoded:
        raise UpstreamInvalidResponse
    body = bytearray()
    while chunk := await reply.read_some():
        body += chunk
        if len(body) > MAX_BYTES:
            raise UpstreamResponseTooLarge
    return bytes(body)


async def _read_refusal(reply: Reply) -> bytes:
    """Return the beginning of an error body, which holds its explanation."""
    body = bytearray()
    while len(body) < REFUSAL_BYTES and (chunk := await reply.read_some()):
        body += chunk
    return bytes(body[:REFUSAL_BYTES])


def completion_in_document(body: bytes) -> Completion:
    """Return the completion in an answer that is not a stream."""
    document = _parsed(body)
    if document.get("error"):
        raise UpstreamInvalidResponse
    parts = _Parts()
    for choice in _choices(document):
        parts.add(choice.get("message"), choice.get("finish_reason"))
    return parts.completion(usage_of(document), cached_tokens_in(document.get("usage")))


def completion_in_events(body: bytes) -> Completion:
    """Return the completion in a stream of server-sent events.

    Raise UpstreamInvalidResponse for an error event, UpstreamTruncated if the end is missing.
    """
    parts = _Parts()
    usage = cached = None
    is_done = False
    for line in body.splitlines():
        name, _, value = line.partition(b":")
        is_done |= name == b"data" and value.strip() == b"[DONE]"
        if name != b"data" or value.strip() in (b"", b"[DONE]"):
            continue
        document = _parsed(value)
        if document.get("error"):
            raise UpstreamInvalidResponse
        if (found := usage_of(document)) is not None:
            usage, cached = found, cached_tokens_in(document["usage"])
        for choice in _choices(document):
            parts.add(choice.get("delta"), choice.get("finish_reason"))
    if parts.finish_reason is None and not is_done:
        raise UpstreamTruncated
    return parts.completion(usage, cached)


@dataclass(slots=True)
class _Parts:
    """The parts of a completion that have been read so far."""

    pieces: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    calls_tools: bool = False
    refuses: bool = False

    def add(self, message: Any, finish_reason: Any) -> None:
        if isinstance(finish_reason, str):
            self.finish_reason = finish_reason
        if not isinstance(message, dict):
            return
        content = message.get("content")
        if isinstance(content, str):
            self.pieces.append(content)
        elif isinstance(content, list):
            self.pieces += [_text_of(part) for part in content]
        self.calls_tools |= bool(message.get("tool_calls") or message.get("function_call"))
        self.refuses |= bool(message.get("refusal"))

    def completion(self, usage: Usage | None, cached_tokens: int | None) -> Completion:
        return Completion(
            "".join(self.pieces),
            self.finish_reason,
            self.calls_tools,
            self.refuses,
            usage,
            cached_tokens,
        )


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = read_leniently(body)
    if not isinstance(document, dict):
        raise UpstreamInvalidResponse
    return document


def _choices(document: dict[str, Any]) -> list[dict[str, Any]]:
    choices = document.get("choices")
    if not isinstance(choices, list):
        return []
    return [each for each in choices if isinstance(each, dict) and each.get("index", 0) == 0]


def _text_of(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""
