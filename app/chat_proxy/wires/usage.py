"""Token usage and completeness of an answer, read while it is relayed."""

import json
import re
from typing import Any, NamedTuple

import orjson

from chat_proxy.errors import UpstreamInvalidResponse

MAX_LINE_BYTES = 1024 * 1024
PARSED_BYTES = 256 * 1024

_DONE = re.compile(rb"^data: ?\[DONE\][ \t\r]*(?:\n|$)", re.MULTILINE)
_ERROR = re.compile(rb"^data: ?\{[ \t]*\"error\"", re.MULTILINE)
USAGE_LINE = re.compile(rb"^data:(.*\"usage\":[ \t]*\{.*)$", re.MULTILINE)
_DONE_LINES = (b"data: [DONE]", b"data:[DONE]")
_DONE_BYTES = len(b"data:[DONE]")
_BLANK_LINES = (b"\n", b"\r\n")
_EVENT_ENDS = (b"\n\n", b"\n\r\n")
_MAX_COUNT = 2**53


class Usage(NamedTuple):
    """The upstream's own token counts for a request and its answer."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


def usage_of(document: object) -> Usage | None:
    """Return the usage in a completion or a chunk, if there is one."""
    usage = document.get("usage") if type(document) is dict else None
    if type(usage) is not dict:
        return None
    return Usage(
        token_count(usage.get("prompt_tokens")),
        token_count(usage.get("completion_tokens")),
        cached_tokens_in(usage) or 0,
    )


def cached_tokens_in(usage: object) -> int | None:
    """Return the prompt tokens that came from a cache, None if the upstream does not report it."""
    details = usage.get("prompt_tokens_details") if type(usage) is dict else None
    cached = details.get("cached_tokens") if type(details) is dict else None
    return token_count(cached) if type(cached) is int else None


def usage_in(body: bytes) -> Usage | None:
    """Return the usage in a line or a body of JSON, None if it is not valid."""
    try:
        return usage_of(orjson.loads(body))
    except orjson.JSONDecodeError:
        return None


def read_leniently(text: bytes) -> object:
    """Parse what orjson refuses but servers do send: lone surrogates, very large numbers."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UpstreamInvalidResponse from None


def token_count(value: Any) -> int:
    """Return a plausible number of tokens, else 0: Prometheus counters refuse other values."""
    return value if type(value) is int and 0 <= value < _MAX_COUNT else 0


class LineTap:
    """The lines of a stream as far as they are relayed: the newest whole ones, and a begun one."""

    __slots__ = ("_lines", "_rest", "off")

    response_id = ""
    """The id that the stream gave its answer, where its last event must repeat it."""

    def __init__(self) -> None:
        self.off = False
        self._lines = b"\n"
        self._rest = bytearray()

    @property
    def is_inside_event(self) -> bool:
        """Whether the last event that was relayed is incomplete."""
        at_end = self._lines in _BLANK_LINES or self._lines.endswith(_EVENT_ENDS)
        return bool(self._rest) or not at_end

    def _keep(self, part: bytes) -> None:
        """Hold an incomplete line; turn the tap off if it is too long to be parsed."""
        self._rest += part
        if len(self._rest) > MAX_LINE_BYTES:
            self.off = True
            del self._rest[1:]


class StreamTap(LineTap):
    """Observe a stream of server-sent events while it is relayed; parse only relevant lines.

    It never raises and changes nothing before `[DONE]`; after `[DONE]` it drops everything.
    """

    is_over = False
    """Whether the last event has passed and others may follow: `[DONE]` is the very last."""

    __slots__ = (
        "_cr_seen",
        "_usage_line",
        "done",
        "failed",
        "finished",
        "said_all",
    )

    def __init__(self) -> None:
        super().__init__()
        self.done = False
        self.said_all = False
        self.finished = False
        self.failed = False
        self._cr_seen = False
        self._usage_line = b""

    @property
    def is_complete(self) -> bool:
        """Whether the stream may end here without counting as truncated."""
        if self.done or self.finished or self.failed or self.off:
            return True
        self._look_at(bytes(self._rest))
        return self.done or self.finished or self.failed

    @property
    def usage(self) -> Usage | None:
        """The last usage in the stream."""
        return usage_in(self._usage_line) if self._usage_line else None

    def may_end_in(self, chunk: bytes) -> bool:
        """Return whether the chunk may have `[DONE]`, or comes after it; all others pass whole."""
        if chunk.find(b"[DONE]") >= 0 or self.done:
            return True
        if not self._rest:
            return False
        begun = self._rest[:_DONE_BYTES]
        return any(line.startswith(begun) for line in _DONE_LINES)

    def feed(self, chunk: bytes) -> bytes:
        """Return the part of the chunk to relay: all of it before `[DONE]`."""
        if self.done:
            return chunk[: self._blank_line_in(chunk)]
        if self.off:
            return chunk
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            self._keep(chunk)
            return chunk
        held = len(self._rest)
        lines = chunk if cut == len(chunk) else chunk[:cut]
        if held:
            lines = bytes(self._rest) + lines
            self._rest.clear()
        self._lines = lines
        end = self._look_at(lines)
        if end is not None:
            end -= held
            return chunk[: end + self._blank_line_in(chunk[end : end + 2])]
        if cut < len(chunk):
            self._keep(chunk[cut:])
        return chunk

    def _look_at(self, lines: bytes) -> int | None:
        """Parse whole lines; return the end of the line with `[DONE]`, if there is one."""
        # `find` instead of `in`: `bytes in bytes` costs an exception inside CPython each time.
        find, end = lines.find, None
        if find(b"[DONE]") >= 0 and (done := _DONE.search(lines)):
            self.done = True
            end = done.end()
            lines = lines[:end]
            find = lines.find
        if find(b'"usage":') >= 0 and (found := USAGE_LINE.findall(lines)):
            self._usage_line = found[-1]
        if find(b'"finish_reason":"') >= 0 or find(b'"finish_reason": "') >= 0:
            self.finished = True
        if find(b'"error"') >= 0 and _ERROR.search(lines):
            self.failed = True
        return end

    def _blank_line_in(self, chunk: bytes) -> int:
        """Return how much of the chunk belongs to the blank line after `[DONE]`."""
        if self.said_all or not chunk:
            return 0
        length = 1 if chunk.startswith(b"\r") and not self._cr_seen else 0
        self._cr_seen = self._cr_seen or length == 1
        ends = chunk[length : length + 1] == b"\n"
        self.said_all = ends or len(chunk) > length
        return length + ends
