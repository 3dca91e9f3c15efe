"""Observe a stream of named events while it is relayed; parse only the events with usage."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from chat_proxy.wires.usage import USAGE_LINE, LineTap, Usage

_LONGEST_MARK: Final = 64

Merge = Callable[[Usage | None, dict[str, Any]], Usage | None]
"""Returns the usage so far together with that in an event's document."""


class EventTap(LineTap):
    """An observer of one stream; it never raises and changes nothing."""

    __slots__ = (
        "_ends",
        "_errors",
        "_merge",
        "_usage_lines",
        "done",
        "failed",
    )

    said_all = False
    """Nothing is cut from the end of a stream: the API has no mark behind its last event."""

    def __init__(self, ends: Sequence[str], errors: Sequence[str], merge: Merge) -> None:
        """Know the types of events that end a stream, and of those that are errors."""
        super().__init__()
        self.done = False
        self.failed = False
        self._ends = _marks(ends)
        self._errors = _marks(errors)
        self._merge = merge
        self._usage_lines: list[bytes] = []

    @property
    def is_complete(self) -> bool:
        """Whether the stream may end here without counting as truncated."""
        if self.done or self.failed or self.off:
            return True
        self._look_at(bytes(self._rest))
        return self.done or self.failed

    @property
    def is_over(self) -> bool:
        """Whether the last event has passed; what follows it passes too."""
        return self.done and not self.is_inside_event

    @property
    def usage(self) -> Usage | None:
        """The usage in the events so far."""
        found: Usage | None = None
        for line in self._usage_lines:
            try:
                document = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if type(document) is dict:
                found = self._merge(found, document)
        return found

    def may_end_in(self, chunk: bytes) -> bool:
        """Return whether the chunk may have the last event, or comes after it."""
        if self.done:
            return True
        seen = bytes(self._rest[-_LONGEST_MARK:]) + chunk if self._rest else chunk
        return any(seen.find(mark) >= 0 for mark in self._ends)

    def feed(self, chunk: bytes) -> bytes:
        """Return the chunk, whole."""
        if self.off:
            return chunk
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            self._keep(chunk)
            return chunk
        lines = chunk if cut == len(chunk) else chunk[:cut]
        if self._rest:
            lines = bytes(self._rest) + lines
            self._rest.clear()
        self._lines = lines
        self._look_at(lines)
        if cut < len(chunk):
            self._keep(chunk[cut:])
        return chunk

    def _look_at(self, lines: bytes) -> None:
        find = lines.find
        if not self.done and any(find(mark) >= 0 for mark in self._ends):
            self.done = True
        if any(find(mark) >= 0 for mark in self._errors):
            self.failed = True
        if find(b'"usage"') >= 0:
            known = [*self._usage_lines, *USAGE_LINE.findall(lines)]
            self._usage_lines = [*known[:1], *known[1:][-1:]]


def _marks(types: Sequence[str]) -> tuple[bytes, ...]:
    """Return the forms in which a type stands in an event.

    A text cannot contain them: the quotation marks in it are escaped.
    """
    forms = ('"type":"%s"', '"type": "%s"')
    return tuple((form % name).encode() for name in types for form in forms)
