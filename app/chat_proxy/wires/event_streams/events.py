"""Whole server-sent events of a stream that is changed on its way, and what changes them."""

import re
from typing import Any, Final, Protocol

from chat_proxy.errors import UpstreamInvalidResponse
from chat_proxy.wires.answers import parsed_document
from chat_proxy.wires.usage import MAX_LINE_BYTES

_EVENT_END: Final = re.compile(rb"\n\r?\n")
_LONGEST_END: Final = 3


class AnswerEdit(Protocol):
    """Changes one answer of the upstream on its way to the client, whole or as a stream."""

    @property
    def goes_on(self) -> bool:
        """Whether another call continues this answer: nothing is ended, a whole one not sent."""
        ...

    def whole(self, body: bytes) -> bytes:
        """Return the body to send in place of an answer that is not a stream."""
        ...

    def feed(self, chunk: bytes) -> bytes:
        """Return what is sent in place of a chunk; an incomplete event may be held back."""
        ...

    def end(self) -> bytes:
        """Return what is sent behind the last chunk, such as an event that was held back."""
        ...


class EventSplitter:
    """Cut a stream into whole events; joined, they are the very bytes of the stream.

    An event over the limit comes in pieces: it can be relayed, but not read.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the events that the chunk completes."""
        searched = max(0, len(self._held) - _LONGEST_END + 1)
        held = self._held + chunk
        events = []
        begin = 0
        for end in _EVENT_END.finditer(held, searched):
            events.append(held[begin : end.end()])
            begin = end.end()
        self._held = held[begin:]
        if len(self._held) > MAX_LINE_BYTES:
            events.append(self.rest())
        return events

    def rest(self) -> bytes:
        """Return the incomplete event at the end of a stream."""
        rest, self._held = self._held, b""
        return rest


def document_of(event: bytes) -> dict[str, Any] | None:
    """Return the document in an event's data; None for comments, `[DONE]` and broken ones."""
    lines = (line for line in event.splitlines() if line.startswith(b"data:"))
    data = b"\n".join(line[5:].strip() for line in lines)
    if not data.startswith(b"{"):
        return None
    try:
        return parsed_document(data)
    except UpstreamInvalidResponse:
        return None
