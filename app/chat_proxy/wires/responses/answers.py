"""The form of Responses' answers: documents, and streams of events named `response.…`."""

import re
from collections.abc import Sequence
from typing import Any, Final

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.errors import UpstreamInvalidResponse, UpstreamTruncated
from chat_proxy.wires.answers import (
    OVERFLOW_CODE,
    AnswerForm,
    Completion,
    Reply,
    data_events,
    error_in,
    named_event,
    parsed_document,
)
from chat_proxy.wires.event_streams.event_tap import EventTap, Merge
from chat_proxy.wires.usage import Usage, token_count

_ENDS: Final = ("response.completed", "response.incomplete")
_ERRORS: Final = ("response.failed", "error")
_RESPONSE_ID: Final = re.compile(rb'"response": ?\{"id": ?"([A-Za-z0-9_.-]{1,200})"')
_NO_USAGE: Final = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


class ResponsesAnswers(AnswerForm):
    """The form of Responses' answers."""

    def tap(self) -> "ResponsesTap":
        """Return an observer of one stream."""
        return ResponsesTap(_ENDS, _ERRORS, _merged)

    def usage_of(self, document: object) -> Usage | None:
        """Return the usage in a response, or in the event that carries one."""
        response = document.get("response", document) if type(document) is dict else None
        usage = response.get("usage") if type(response) is dict else None
        if type(usage) is not dict:
            return None
        return Usage(
            token_count(usage.get("input_tokens")),
            token_count(usage.get("output_tokens")),
            _cached_tokens(usage) or 0,
        )

    def completion_in_document(self, document: dict[str, Any]) -> Completion:
        """Return what the model said in a whole response."""
        if document.get("error") or document.get("status") == "failed":
            raise UpstreamInvalidResponse
        output = document.get("output")
        items = [item for item in output if type(item) is dict] if type(output) is list else []
        parts = [
            part
            for item in items
            if item.get("type") == "message" and type(item.get("content")) is list
            for part in item["content"]
            if type(part) is dict
        ]
        texts = [part.get("text") for part in parts if part.get("type") == "output_text"]
        return Completion(
            "".join(text for text in texts if type(text) is str),
            _finish_reason(document),
            any(str(item.get("type")).endswith("_call") for item in items),
            any(part.get("type") == "refusal" for part in parts),
            self.usage_of(document),
            _cached_tokens(document.get("usage")),
        )

    def completion_in_events(self, body: bytes) -> Completion:
        """Return what the model said: the last event carries the whole response."""
        for document in data_events(body):
            kind = document.get("type")
            if kind in _ERRORS:
                raise UpstreamInvalidResponse
            response = document.get("response")
            if kind in _ENDS and type(response) is dict:
                return self.completion_in_document(response)
        raise UpstreamTruncated

    def error_event(
        self, document: dict[str, Any], request_id: str, response_id: str = ""
    ) -> bytes:
        """Return an error as a failed response, which is how a stream ends early."""
        error = error_in(document)
        code = error.get("code") or error.get("type") or "server_error"
        said = {"code": str(code), "message": str(error.get("message") or "")}
        response = {**response_of(Reply("", "", request_id, 0), "failed", []), "error": said}
        # Clients refuse the end of another response than the one that began.
        response["id"] = response_id or response["id"]
        return named_event({"type": "response.failed", "sequence_number": 0, "response": response})

    def too_long(self, body: bytes, needed: int, limit: int) -> bytes:
        """Return the refusal with the code that clients look for."""
        try:
            error = error_in(parsed_document(body))
        except UpstreamInvalidResponse:
            error = {}
        if error.get("code") == OVERFLOW_CODE and "type" in error:
            return body
        numbers = f" ({needed} tokens > {limit} maximum)" if limit else ""
        message = error.get("message") or f"The prompt is too long{numbers}."
        return serialise(
            {
                "error": {
                    "message": message,
                    "type": "invalid_request_error",
                    "param": "input",
                    "code": OVERFLOW_CODE,
                }
            }
        )

    def whole_reply(self, reply: Reply) -> bytes:
        """Return an answer of the proxy as a response."""
        return serialise(response_of(reply, "completed", [_message(reply, "completed")]))

    def streamed_reply(self, reply: Reply) -> bytes:
        """Return an answer of the proxy as the events of a response."""
        part = _part(reply.text)
        place: dict[str, Any] = {
            "item_id": f"msg_{reply.request_id}",
            "output_index": 0,
            "content_index": 0,
        }
        begun, done = (
            {**_message(reply, "in_progress"), "content": []},
            _message(reply, "completed"),
        )
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": response_of(reply, "in_progress", [])},
            {"type": "response.in_progress", "response": response_of(reply, "in_progress", [])},
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            {"type": "response.content_part.added", **place, "part": _part("")},
            {"type": "response.output_text.delta", **place, "delta": reply.text, "logprobs": []},
            {"type": "response.output_text.done", **place, "text": reply.text, "logprobs": []},
            {"type": "response.content_part.done", **place, "part": part},
            {"type": "response.output_item.done", "output_index": 0, "item": done},
            {"type": "response.completed", "response": response_of(reply, "completed", [done])},
        ]
        numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
        return b"".join(map(named_event, numbered))


class ResponsesTap(EventTap):
    """An observer that also knows the id of the response."""

    __slots__ = ("response_id",)

    def __init__(self, ends: Sequence[str], errors: Sequence[str], merge: Merge) -> None:
        super().__init__(ends, errors, merge)
        self.response_id = ""

    def _look_at(self, lines: bytes) -> None:
        if not self.response_id and (found := _RESPONSE_ID.search(lines)):
            self.response_id = found[1].decode()
        super()._look_at(lines)


def _merged(before: Usage | None, document: dict[str, Any]) -> Usage | None:
    return ResponsesAnswers().usage_of(document) or before


def _cached_tokens(usage: Any) -> int | None:
    details = usage.get("input_tokens_details") if type(usage) is dict else None
    cached = details.get("cached_tokens") if type(details) is dict else None
    return token_count(cached) if type(cached) is int else None


def _finish_reason(document: dict[str, Any]) -> str | None:
    """Return why a response ended; None without the field for it, which llama.cpp leaves out."""
    details = document.get("incomplete_details")
    reason = details.get("reason") if type(details) is dict else None
    if document.get("status") != "incomplete":
        return "stop" if "incomplete_details" in document else None
    return "length" if reason == "max_output_tokens" else str(reason)


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(reply: Reply, status: str) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.request_id}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [_part(reply.text)],
    }


def response_of(reply: Reply, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a response of the proxy's own."""
    return {
        "id": f"resp_{reply.request_id}",
        "object": "response",
        "created_at": reply.created,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": None,
        "top_p": None,
        "usage": _NO_USAGE if status == "completed" else None,
    }
