"""A whole completion for the proxy's own questions, streamed so that no gateway loses patience."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from chat_proxy.errors import UpstreamInvalidResponse, UpstreamResponseTooLarge, UpstreamTruncated
from chat_proxy.http.headers import value_of
from chat_proxy.upstream.client import Call, Reply, Upstream
from chat_proxy.upstream.usage import Usage, usage_of

MAX_BYTES = 4 * 1024 * 1024
REFUSAL_BYTES = 16 * 1024
LONGEST_PAUSE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model said, from its first choice; reasoning is told apart and not kept."""

    text: str
    finish_reason: str | None
    calls_tools: bool
    refuses: bool
    thinks: bool
    usage: Usage | None


class NotAnswered(Exception):
    """The upstream answered with an error; `retry_after` is how long it wants to be left alone.

    `said` is how it explains that it cannot use the request.
    """

    def __init__(self, status: int, retry_after: float | None, said: bytes = b"") -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.retry_after = retry_after
        self.said = said


async def complete(upstream: Upstream, call: Call) -> Completion:
    """Send a call and read its completion to the end.

    Raises NotAnswered for an error status, an UpstreamError where there is no answer to read.
    """
    reply = await upstream.send(call)
    try:
        if reply.status in (400, 422):
            raise NotAnswered(reply.status, retry_after(reply), await _read_refusal(reply))
        if reply.status != 200:
            raise NotAnswered(reply.status, retry_after(reply))
        body = await _read(reply)
    finally:
        reply.let_go()
    if reply.content_type == b"text/event-stream":
        return completion_in_events(body)
    return completion_in_document(body)


def retry_after(reply: Reply) -> float | None:
    """Return how many seconds the upstream asks for, within reason; dates are not understood."""
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
    """Read as much of an error as tells what is wrong."""
    body = bytearray()
    while len(body) < REFUSAL_BYTES and (chunk := await reply.read_some()):
        body += chunk
    return bytes(body[:REFUSAL_BYTES])


def completion_in_document(body: bytes) -> Completion:
    """Read an answer that is not a stream."""
    document = _parsed(body)
    if document.get("error"):
        raise UpstreamInvalidResponse
    heard = _Heard()
    for choice in _choices(document):
        heard.add(choice.get("message"), choice.get("finish_reason"))
    return heard.completion(usage_of(document))


def completion_in_events(body: bytes) -> Completion:
    """Read a stream of server-sent events; an error among them is no completion."""
    heard = _Heard()
    usage = None
    is_done = False
    for line in body.splitlines():
        name, _, value = line.partition(b":")
        is_done |= name == b"data" and value.strip() == b"[DONE]"
        if name != b"data" or value.strip() in (b"", b"[DONE]"):
            continue
        document = _parsed(value)
        if document.get("error"):
            raise UpstreamInvalidResponse
        usage = usage_of(document) or usage
        for choice in _choices(document):
            heard.add(choice.get("delta"), choice.get("finish_reason"))
    if heard.finish_reason is None and not is_done:
        raise UpstreamTruncated
    return heard.completion(usage)


@dataclass(slots=True)
class _Heard:
    """What was said so far."""

    pieces: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    calls_tools: bool = False
    refuses: bool = False
    thinks: bool = False

    def add(self, said: Any, finish_reason: Any) -> None:
        if isinstance(finish_reason, str):
            self.finish_reason = finish_reason
        if not isinstance(said, dict):
            return
        content = said.get("content")
        if isinstance(content, str):
            self.pieces.append(content)
        elif isinstance(content, list):
            self.pieces += [_text_of(part) for part in content]
        self.calls_tools |= bool(said.get("tool_calls") or said.get("function_call"))
        self.refuses |= bool(said.get("refusal"))
        self.thinks |= bool(said.get("reasoning_content") or said.get("reasoning"))

    def completion(self, usage: Usage | None) -> Completion:
        return Completion(
            "".join(self.pieces),
            self.finish_reason,
            self.calls_tools,
            self.refuses,
            self.thinks,
            usage,
        )


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise UpstreamInvalidResponse from None
    if not isinstance(document, dict):
        raise UpstreamInvalidResponse
    return document


def _choices(document: dict[str, Any]) -> list[dict[str, Any]]:
    choices = document.get("choices")
    if not isinstance(choices, list):
        return []
    return [it for it in choices if isinstance(it, dict) and it.get("index", 0) == 0]


def _text_of(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""
