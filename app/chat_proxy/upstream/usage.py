"""What an answer says about itself, read on the side: token usage, and whether it is complete."""

import re
from typing import Any, NamedTuple

import orjson

MAX_LINE_BYTES = 1024 * 1024

_DONE = re.compile(rb"^data: ?\[DONE\][ \t\r]*(?:\n|$)", re.MULTILINE)
_ERROR = re.compile(rb"^data: ?\{[ \t]*\"error\"", re.MULTILINE)
_USAGE = re.compile(rb"^data:(.*\"usage\":[ \t]*\{.*)$", re.MULTILINE)
_BLANK_LINES = (b"\n", b"\r\n")
_EVENT_ENDS = (b"\n\n", b"\n\r\n")
_ENDLESS = 2**53


class Usage(NamedTuple):
    """The upstream's own count of an exchange's tokens."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


def usage_of(document: object) -> Usage | None:
    """Return the usage that a completion or a chunk carries, if any."""
    usage = document.get("usage") if type(document) is dict else None
    if type(usage) is not dict:
        return None
    details = usage.get("prompt_tokens_details")
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(details.get("cached_tokens")) if type(details) is dict else 0,
    )


def usage_in(body: bytes) -> Usage | None:
    """Return the usage that a line or a body of JSON carries, if it can be read."""
    try:
        return usage_of(orjson.loads(body))
    except orjson.JSONDecodeError:
        return None


def _count(value: Any) -> int:
    """Return a believable number of tokens: counters take no other."""
    return value if type(value) is int and 0 <= value < _ENDLESS else 0


class StreamTap:
    """Watches a stream of server-sent events go by, parsing only the lines that matter.

    It never raises and never changes what it lets pass; behind `[DONE]` it lets nothing pass.
    """

    __slots__ = (
        "_half_said",
        "_lines",
        "_rest",
        "_usage_line",
        "done",
        "failed",
        "finished",
        "off",
        "said_all",
    )

    def __init__(self) -> None:
        self.done = False
        self.said_all = False
        self.finished = False
        self.failed = False
        self.off = False
        self._half_said = False
        self._lines = b"\n"
        self._rest = bytearray()
        self._usage_line = b""

    @property
    def is_complete(self) -> bool:
        """Whether the stream may end here without being called truncated."""
        if self.done or self.finished or self.failed or self.off:
            return True
        self._look_at(bytes(self._rest))
        return self.done or self.finished or self.failed

    @property
    def stands_in_a_line(self) -> bool:
        """Whether the last event that went by is still open."""
        at_end = self._lines in _BLANK_LINES or self._lines.endswith(_EVENT_ENDS)
        return bool(self._rest) or not at_end

    @property
    def usage(self) -> Usage | None:
        """The last usage that went by."""
        return usage_in(self._usage_line) if self._usage_line else None

    def feed(self, chunk: bytes) -> bytes:
        """Return the part of the chunk that goes to the client: all of it before `[DONE]`."""
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

    def _keep(self, part: bytes) -> None:
        """Wait for the rest of a line, unless it is too long to be looked at."""
        self._rest += part
        if len(self._rest) > MAX_LINE_BYTES:
            self.off = True
            del self._rest[1:]

    def _look_at(self, lines: bytes) -> int | None:
        """Note what whole lines say; return where the line of `[DONE]` ends, if it is there."""
        # Not by `in`: to look for bytes in bytes costs an exception each time.
        find, end = lines.find, None
        if find(b"[DONE]") >= 0 and (done := _DONE.search(lines)):
            self.done = True
            end = done.end()
            lines = lines[:end]
            find = lines.find
        if find(b'"usage":') >= 0 and (found := _USAGE.findall(lines)):
            self._usage_line = found[-1]
        if find(b'"finish_reason":"') >= 0 or find(b'"finish_reason": "') >= 0:
            self.finished = True
        if find(b'"error"') >= 0 and _ERROR.search(lines):
            self.failed = True
        return end

    def _blank_line_in(self, chunk: bytes) -> int:
        """Return the length of what belongs to the blank line behind `[DONE]`."""
        if self.said_all or not chunk:
            return 0
        length = 1 if chunk.startswith(b"\r") and not self._half_said else 0
        self._half_said = self._half_said or length == 1
        ends = chunk[length : length + 1] == b"\n"
        self.said_all = ends or len(chunk) > length
        return length + ends
