"""What an answer says about itself, read on the side: token usage, and whether it is complete."""

import re
from dataclasses import dataclass

import orjson

MAX_LINE_BYTES = 1024 * 1024

_DONE = re.compile(rb"^data: ?\[DONE\][ \t]*(?:\r?\n(?P<blank>\r?\n)?|$)", re.MULTILINE)
_ERROR = re.compile(rb"^data: ?\{\s*\"error\"", re.MULTILINE)
_USAGE = re.compile(rb"^data:(.*\"usage\":\s*\{.*)$", re.MULTILINE)
_LINE_ENDS = b"\r\n"


@dataclass(frozen=True, slots=True)
class Usage:
    """The upstream's own count of an exchange's tokens."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


def usage_of(document: object) -> Usage | None:
    """Return the usage that a completion or a chunk carries, if any."""
    if not isinstance(document, dict) or not isinstance(document.get("usage"), dict):
        return None
    usage = document["usage"]
    details = usage.get("prompt_tokens_details")
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
    )


def usage_in(body: bytes) -> Usage | None:
    """Return the usage that a line or a body of JSON carries, if it can be read."""
    try:
        return usage_of(orjson.loads(body))
    except orjson.JSONDecodeError:
        return None


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


class StreamTap:
    """Watches a stream of server-sent events go by, parsing only the lines that matter.

    It never raises and never changes what it lets pass; behind `[DONE]` it lets nothing pass.
    """

    __slots__ = ("_closing", "_rest", "_usage_line", "done", "failed", "finished", "off")

    def __init__(self) -> None:
        self.done = False
        self.finished = False
        self.failed = False
        self.off = False
        self._rest = b""
        self._usage_line = b""
        self._closing = False

    @property
    def is_complete(self) -> bool:
        """Whether the stream may end here without being called truncated."""
        if self.done or self.finished or self.failed or self.off:
            return True
        self._look_at(self._rest)
        return self.done or self.finished or self.failed

    @property
    def stands_in_a_line(self) -> bool:
        """Whether the last line that went by is still open."""
        return bool(self._rest)

    @property
    def usage(self) -> Usage | None:
        """The last usage that went by."""
        return usage_in(self._usage_line) if self._usage_line else None

    def feed(self, chunk: bytes) -> bytes:
        """Return the part of the chunk that goes to the client: all of it before `[DONE]`."""
        if self.done:
            return self._closing_line_ends(chunk)
        if self.off:
            return chunk
        held = len(self._rest)
        block = self._rest + chunk if held else chunk
        cut = len(block) if block.endswith(b"\n") else block.rfind(b"\n") + 1
        lines, self._rest = (block, b"") if cut == len(block) else (block[:cut], block[cut:])
        if len(self._rest) > MAX_LINE_BYTES:
            self.off, self._rest = True, b""
        end = self._look_at(lines)
        return chunk if end is None else chunk[: end - held]

    def _look_at(self, lines: bytes) -> int | None:
        """Note what whole lines say; return where `[DONE]` ends, if it is there."""
        if b'"usage":' in lines and (found := _USAGE.findall(lines)):
            self._usage_line = found[-1]
        if b'"finish_reason":"' in lines or b'"finish_reason": "' in lines:
            self.finished = True
        if b'"error"' in lines and _ERROR.search(lines):
            self.failed = True
        if b"[DONE]" in lines and (done := _DONE.search(lines)):
            self.done = True
            self._rest = b""
            self._closing = done["blank"] is None
            return done.end()
        return None

    def _closing_line_ends(self, chunk: bytes) -> bytes:
        """Let the line ends pass that belong to `[DONE]`, and nothing after them."""
        if not self._closing:
            return b""
        self._closing = False
        length = len(chunk) - len(chunk.lstrip(_LINE_ENDS))
        return chunk[: min(length, 4)]
