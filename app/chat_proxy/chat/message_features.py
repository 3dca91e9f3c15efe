"""What messages are like: one walk for all who would make their own."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self, TypeGuard

from chat_proxy.chat.texts import RESULT_ROLES

_INSTRUCTIONS: Final = ("system", "developer")
_ONLY_OBJECTS: Final = frozenset((dict,))
_BEARERS: Final = (*RESULT_ROLES, "assistant")
_MOST_BYTES_OF_A_CHARACTER: Final = 4


class MessageFeatures(NamedTuple):
    """What holds for all of some messages."""

    is_plain: bool = True
    """Whether each is one text or nothing: then there are no parts, and no media."""
    longest_result: int = 0
    """The most bytes that a text has which is a tool's result, or may have one folded in."""
    is_led: bool = False
    """Whether the application speaks anywhere."""
    is_asked: bool = False
    """Whether the user does."""

    def with_more(self, more: Self) -> "MessageFeatures":
        """Return the shape of these messages and of others behind them."""
        return MessageFeatures(
            self.is_plain and more.is_plain,
            max(self.longest_result, more.longest_result),
            self.is_led or more.is_led,
            self.is_asked or more.is_asked,
        )


def is_list_of_objects(messages: object) -> TypeGuard[list[dict[str, Any]]]:
    """Tell whether this is what a client's messages should be."""
    return type(messages) is list and _ONLY_OBJECTS.issuperset(map(type, messages))


def shape_of(messages: Iterable[dict[str, Any]]) -> MessageFeatures:
    """Return what the messages are like."""
    is_plain = True
    is_led = is_asked = False
    longest = 0
    for fields in messages:
        content, role = fields.get("content"), fields.get("role")
        if role == "user":
            is_asked = True
        elif role in _INSTRUCTIONS:
            is_led = True
        if type(content) is str:
            if role in _BEARERS:
                longest = max(longest, _most_bytes(content))
        elif content is not None:
            is_plain = False
    return MessageFeatures(is_plain, longest, is_led, is_asked)


def _most_bytes(text: str) -> int:
    """Return no less than the text has in UTF-8, without encoding it."""
    return len(text) if text.isascii() else len(text) * _MOST_BYTES_OF_A_CHARACTER
