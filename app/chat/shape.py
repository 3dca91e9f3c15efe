"""What the contents of messages are like: one walk for all who would make their own."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from app.chat.pieces import RESULT_ROLES

_BEARERS: Final = (*RESULT_ROLES, "assistant")
_MOST_BYTES_OF_A_CHARACTER: Final = 4


class Shape(NamedTuple):
    """What holds for all contents of some messages."""

    is_plain: bool = True
    """Whether each is one text or nothing: then there are no parts, and no media."""
    longest_result: int = 0
    """The most bytes that a text has which is a tool's result, or may have one folded in."""


def shape_of(messages: Iterable[dict[str, Any]]) -> Shape:
    """Return what the contents of the messages are like."""
    is_plain = True
    longest = 0
    for fields in messages:
        content = fields.get("content")
        if type(content) is str:
            if len(content) > longest and fields.get("role") in _BEARERS:
                longest = max(longest, _most_bytes(content))
        elif content is not None:
            is_plain = False
    return Shape(is_plain, longest)


def _most_bytes(text: str) -> int:
    """Return no less than the text has in UTF-8, without encoding it."""
    return len(text) if text.isascii() else len(text) * _MOST_BYTES_OF_A_CHARACTER
