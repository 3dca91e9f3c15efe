"""Blocks that clients put into messages for one request only, and take out again later."""

import re
from collections.abc import Iterable
from typing import Final

_ANY_CASE: Final = re.IGNORECASE | re.ASCII


class VolatileBlocks:
    """Remove blocks such as `<environment_details>…</environment_details>` from texts."""

    def __init__(self, tags: Iterable[str]) -> None:
        names = sorted({tag.lower() for tag in tags})
        any_name = "|".join(map(re.escape, names))
        self._opening = re.compile(rf"<({any_name})(?=[\s>])", _ANY_CASE) if names else None
        self._closing = {name: re.compile(rf"</{re.escape(name)}>", _ANY_CASE) for name in names}

    def without(self, text: str) -> str:
        """Return a text without the blocks; one that is not closed stays."""
        if self._opening is None or not (found := self._opening.search(text)):
            return text
        unclosed: set[str] = set()
        kept: list[str] = []
        start, last_closing = 0, text.rfind("</")
        while found and found.end() <= last_closing:
            tag, position = found[1].lower(), found.end()
            closing = None if tag in unclosed else self._closing[tag].search(text, position)
            if closing is None:
                unclosed.add(tag)
            else:
                kept.append(text[start : found.start()])
                start = position = closing.end()
            found = self._opening.search(text, position)
        return "".join([*kept, text[start:]])

    def without_last(self, text: str) -> str:
        """Return a text without the blocks at its end, which a client appended to it."""
        end = _end_of_words(text, len(text))
        if self._opening is None or text[end - 1 : end] != ">":
            return text[:end]
        openings = [(found.start(), found[1].lower()) for found in self._opening.finditer(text)]
        while openings:
            start, tag = openings.pop()
            closing = f"</{tag}>"
            if start < end and text[end - len(closing) : end].lower() == closing:
                end = _end_of_words(text, start)
            elif start < end:
                break
        return text[:end]


def _end_of_words(text: str, end: int) -> int:
    """Return the end of a text before a position, without the spaces there."""
    while end and text[end - 1].isspace():
        end -= 1
    return end
