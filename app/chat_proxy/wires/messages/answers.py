"""The form of Messages' answers: documents, and streams of events named `message_…`."""

from typing import Any, Final

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.errors import ProxyError, UpstreamInvalidResponse, UpstreamTruncated
from chat_proxy.wires.answers import (
    AnswerForm,
    Completion,
    Reply,
    data_events,
    error_in,
    named_event,
)
from chat_proxy.wires.event_streams.event_tap import EventTap
from chat_proxy.wires.usage import Usage, token_count

_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OWN_TYPES: Final = frozenset({*_ERROR_TYPES.values(), "api_error", "billing_error"})
_FINISH_REASONS: Final = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}


class MessagesAnswers(AnswerForm):
    """The form of Messages' answers."""

    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    waiting = ping

    def tap(self) -> EventTap:
        """Return an observer of one stream."""
        return EventTap(("message_stop",), ("error",), _merged)

    def usage_of(self, document: object) -> Usage | None:
        """Return the usage in a message; what came from a cache is part of the prompt."""
        usage = document.get("usage") if type(document) is dict else None
        return _usage(usage) if type(usage) is dict else None

    def completion_in_document(self, document: dict[str, Any]) -> Completion:
        """Return what the model said in a whole message."""
        if document.get("type") == "error" or document.get("error"):
            raise UpstreamInvalidResponse
        content = document.get("content")
        blocks = [block for block in content or () if type(block) is dict]
        texts = [block.get("text") for block in blocks if block.get("type") == "text"]
        usage = document.get("usage")
        return _completion(
            [text for text in texts if type(text) is str],
            document.get("stop_reason"),
            self.usage_of(document),
            usage.get("cache_read_input_tokens") if type(usage) is dict else None,
        )

    def completion_in_events(self, body: bytes) -> Completion:
        """Return what the model said in a stream of events."""
        texts: list[str] = []
        usage: Usage | None = None
        cached = reason = None
        is_ended = False
        for document in data_events(body):
            kind, delta = document.get("type"), document.get("delta")
            if kind == "error":
                raise UpstreamInvalidResponse
            is_ended |= kind == "message_stop"
            usage = _merged(usage, document)
            found = _cached_in(document)
            cached = cached if found is None else found
            if type(delta) is dict:
                if type(delta.get("text")) is str:
                    texts.append(delta["text"])
                reason = delta.get("stop_reason") or reason
        if reason is None and not is_ended:
            raise UpstreamTruncated
        return _completion(texts, reason, usage, cached)

    def error_document(self, error: ProxyError) -> dict[str, Any]:
        """Return an error of the proxy in Anthropic's shape."""
        kind = _ERROR_TYPES.get(error.status, "api_error")
        if error.status < 500 and error.status not in _ERROR_TYPES:
            kind = "invalid_request_error"
        return {"type": "error", "error": {"type": kind, "message": error.message}}

    def error_event(
        self,
        document: dict[str, Any],
        request_id: str,
        response_id: str = "",  # noqa: ARG002 - as all wires
    ) -> bytes:
        """Return an error as the event that ends a stream early."""
        error = error_in(document)
        kind = error.get("type") if error.get("type") in _OWN_TYPES else "api_error"
        said = {"type": kind, "message": str(error.get("message") or "")}
        return named_event({"type": "error", "error": said, "request_id": request_id})

    def too_long(self, body: bytes, needed: int, limit: int) -> bytes:  # noqa: ARG002 - replaced whole
        """Return the refusal in Anthropic's words: its clients compact when they read them."""
        numbers = f": {needed} tokens > {limit} maximum" if limit else ""
        error = {"type": "invalid_request_error", "message": f"prompt is too long{numbers}"}
        return serialise({"type": "error", "error": error})

    def whole_reply(self, reply: Reply) -> bytes:
        """Return an answer of the proxy as a message."""
        content = [{"type": "text", "text": reply.text}]
        message = _message(reply, content)
        return serialise({**message, "stop_reason": "end_turn"})

    def streamed_reply(self, reply: Reply) -> bytes:
        """Return an answer of the proxy as the events of a message."""
        delta = {"type": "text_delta", "text": reply.text}
        ending = {"stop_reason": "end_turn", "stop_sequence": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": _message(reply, [])},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 0}},
            {"type": "message_stop"},
        ]
        return b"".join(map(named_event, events))


def _message(reply: Reply, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.request_id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _completion(texts: list[str], reason: Any, usage: Usage | None, cached: Any) -> Completion:
    finish = _FINISH_REASONS.get(reason, reason) if type(reason) is str else None
    return Completion(
        "".join(texts),
        finish,
        reason == "tool_use",
        reason == "refusal",
        usage,
        token_count(cached) if type(cached) is int else None,
    )


def _usage(usage: dict[str, Any]) -> Usage:
    cached = token_count(usage.get("cache_read_input_tokens"))
    written = token_count(usage.get("cache_creation_input_tokens"))
    fresh = token_count(usage.get("input_tokens"))
    prompt = fresh + cached + written
    return Usage(prompt, token_count(usage.get("output_tokens")), cached)


def _cached_in(document: dict[str, Any]) -> Any:
    """Return the cached tokens in an event: Anthropic reports them first, vLLM last."""
    message = document.get("message", document)
    usage = message.get("usage") if type(message) is dict else None
    return usage.get("cache_read_input_tokens") if type(usage) is dict else None


def _merged(before: Usage | None, document: dict[str, Any]) -> Usage | None:
    """Return the usage so far: the first event has the prompt's, the last the answer's."""
    message = document.get("message", document)
    usage = message.get("usage") if type(message) is dict else None
    if type(usage) is not dict:
        return before
    found = _usage(usage)
    if before is None:
        return found
    prompt = found.prompt_tokens or before.prompt_tokens
    cached = found.cached_tokens or before.cached_tokens
    return Usage(prompt, max(found.completion_tokens, before.completion_tokens), cached)
