"""Features of a list of messages, found in a single pass for all stages that need them."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self, TypeGuard

from chat_proxy.chat.details_blocks import may_embed_results
from chat_proxy.chat.message import Message
from chat_proxy.chat.result_texts import LEAST_SEARCHED_CHARS, Base64Search, texts_in
from chat_proxy.chat.texts import RESULT_ROLES

_INSTRUCTIONS: Final = ("system", "developer")
_ONLY_OBJECTS: Final = frozenset((dict,))
_ROLES_WITH_RESULTS: Final = (*RESULT_ROLES, "assistant")
_MAX_BYTES_PER_CHARACTER: Final = 4


class MessageFeatures(NamedTuple):
    """What is known of a list of messages as a whole."""

    is_plain: bool = True
    """Whether each content is a string or missing: then there are no parts and no media."""
    longest_result: int = 0
    """The maximum bytes of a text that is a tool result or may have one embedded."""
    has_instructions: bool = False
    """Whether there is a system or developer message."""
    has_user_message: bool = False
    """Whether there is a user message."""
    may_have_base64: bool = False
    """Whether a text that is a tool result, or has one embedded, may contain base64."""

    def combined_with(self, more: Self) -> "MessageFeatures":
        """Return the features of these messages together with those that follow."""
        return MessageFeatures(
            self.is_plain and more.is_plain,
            max(self.longest_result, more.longest_result),
            self.has_instructions or more.has_instructions,
            self.has_user_message or more.has_user_message,
            self.may_have_base64 or more.may_have_base64,
        )


def is_list_of_objects(messages: object) -> TypeGuard[list[dict[str, Any]]]:
    """Return whether this is a list of objects, as a client's messages must be."""
    return type(messages) is list and _ONLY_OBJECTS.issuperset(map(type, messages))


def shape_of(messages: Iterable[dict[str, Any]]) -> MessageFeatures:
    """Return the features of the messages."""
    is_plain = True
    has_instructions = has_user_message = may_have_base64 = False
    longest = 0
    search = Base64Search()
    for fields in messages:
        content, role = fields.get("content"), fields.get("role")
        if role == "user":
            has_user_message = True
        elif role in _INSTRUCTIONS:
            has_instructions = True
        if type(content) is str:
            if role in _ROLES_WITH_RESULTS:
                longest = max(longest, _max_bytes(content))
                if len(content) > LEAST_SEARCHED_CHARS and not may_have_base64:
                    may_have_base64 = _may_have_base64(role, content, search)
        elif content is not None:
            is_plain = False
            if role in _ROLES_WITH_RESULTS and not may_have_base64:
                texts = texts_in(Message(fields))
                may_have_base64 = any(_may_have_base64(role, text, search) for _, text in texts)
    return MessageFeatures(is_plain, longest, has_instructions, has_user_message, may_have_base64)


def _may_have_base64(role: str, text: str, search: Base64Search) -> bool:
    """Return whether a tool result, or a text with embedded ones, may contain base64."""
    if len(text) <= LEAST_SEARCHED_CHARS:
        return False
    return (role in RESULT_ROLES or may_embed_results(text)) and search.may_find(text)


def _max_bytes(text: str) -> int:
    """Return an upper bound of the text's UTF-8 bytes without encoding it."""
    return len(text) if text.isascii() else len(text) * _MAX_BYTES_PER_CHARACTER
