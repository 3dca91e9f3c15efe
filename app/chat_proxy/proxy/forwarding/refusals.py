"""Refusals in an upstream's answer, as a response or as an event of a stream."""

import re

import orjson

from chat_proxy.errors import UpstreamInvalidResponse
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.forwarding.silent_truncation import SilentTruncation
from chat_proxy.upstream.overflow import Overflow

FIRST_EVENT_BYTES = 64 * 1024

_REFUSAL_BEGINS = re.compile(rb"\s*data: ?\{\s*\"error\"")
_REFUSAL = re.compile(rb"\s*data: ?(\{\s*\"error\".*)\r?\n")
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


def refusal_event(status: int, body: bytes) -> bytes:
    """Return the upstream's own error as the last event of a stream that has begun."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if status < 400 or not isinstance(document, dict):
        raise UpstreamInvalidResponse
    error = document if "error" in document else {"error": document}
    return b"data: " + orjson.dumps(error) + b"\n\ndata: [DONE]\n\n"


def is_unfinished_refusal(beginning: bytes) -> bool:
    """Return whether a stream begins with an error whose line is not complete yet."""
    return (
        _REFUSAL_BEGINS.match(beginning) is not None
        and _REFUSAL.match(beginning) is None
        and len(beginning) < FIRST_EVENT_BYTES
    )


def refusal_in(beginning: bytes) -> tuple[int, bytes] | None:
    """Return status and body of the error that a stream begins with, None without one."""
    found = _REFUSAL.match(beginning)
    if found is None:
        return None
    try:
        error = orjson.loads(found[1])["error"]
    except orjson.JSONDecodeError:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    status = int(code) if isinstance(code, int | str) and _STATUS.fullmatch(str(code)) else 500
    return status, found[1].strip()
