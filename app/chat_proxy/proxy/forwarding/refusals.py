"""Refusals in an upstream's answer, as a response or as an event of a stream."""

import re
from typing import Any

import orjson

from chat_proxy.errors import UpstreamInvalidResponse
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.forwarding.silent_truncation import SilentTruncation
from chat_proxy.upstream.overflow import Overflow, overflow_in

FIRST_EVENT_BYTES = 64 * 1024

_EVENT = re.compile(rb"\s*(?:event: ?([\w.]+)\r?\n)?data: ?(\{.*)\r?\n")
"""The first event of a stream, its name if it has one and its data; a dot is no line break."""
_MAY_BE_REFUSAL = re.compile(rb"\s*(?:event: ?(?:error|response\.)|data: ?\{\s*\"(?:error|type)\")")
_BEFORE_ANYTHING = frozenset({"response.created", "response.queued", "response.in_progress"})
"""The events that an upstream may send before it has looked at the prompt."""
_STATUS = re.compile(r"[45]\d\d")


class TooLong(Exception):
    """The upstream refused a prompt for its length, and the client does not know yet."""

    def __init__(self, status: int, headers: RawHeaders, body: bytes, overflow: Overflow) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body
        self.overflow = overflow


class TruncatedPrompt(TooLong):
    """The upstream answered a prompt that it had truncated, and the client does not know yet."""

    def __init__(self, headers: RawHeaders, body: bytes, truncation: SilentTruncation) -> None:
        super().__init__(200, headers, body, Overflow(limit=truncation.window))
        self.truncation = truncation


def plain_json(headers: RawHeaders) -> RawHeaders:
    """Return a stream's headers, changed for a JSON answer."""
    others = [header for header in headers if header[0] != b"content-type"]
    return [*others, (b"content-type", b"application/json")]


def refusal_document(status: int, body: bytes) -> dict[str, Any]:
    """Return the upstream's own error, for a stream that has begun."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if status < 400 or not isinstance(document, dict):
        raise UpstreamInvalidResponse
    return document


def is_unfinished_refusal(beginning: bytes) -> bool:
    """Return whether a stream may begin with an error that has not arrived whole yet."""
    if len(beginning) >= FIRST_EVENT_BYTES or not _MAY_BE_REFUSAL.match(beginning):
        return False
    position = 0
    while event := _EVENT.match(beginning, position):
        document = _document(event[2])
        if document is None or document.get("type") not in _BEFORE_ANYTHING:
            return False
        position = event.end()
    return True


def refusal_in(beginning: bytes) -> tuple[int, bytes] | None:
    """Return status and body of the error that a stream begins with, None without one."""
    if not _MAY_BE_REFUSAL.match(beginning):
        return None
    position = 0
    while event := _EVENT.match(beginning, position):
        document = _document(event[2])
        if document is None:
            return None
        if document.get("type") not in _BEFORE_ANYTHING:
            return _refusal_of(document, event[2])
        position = event.end()
    return None


def _document(data: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _refusal_of(document: dict[str, Any], data: bytes) -> tuple[int, bytes] | None:
    """Return the error in an event: by itself, of a failed response, or under its name."""
    kind, response = document.get("type"), document.get("response")
    if kind == "response.failed" and isinstance(response, dict):
        error = response.get("error")
        body = orjson.dumps({"error": error})
    elif kind == "error" and "error" not in document:
        error, body = document, orjson.dumps({"error": document})
    elif "error" in document and kind in (None, "error"):
        error, body = document["error"], data.strip()
    else:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int | str) and _STATUS.fullmatch(str(code)):
        return int(code), body
    return (400 if kind and overflow_in(400, body) else 500), body
