"""A chat request: the client's bytes and the parsed fields that the proxy needs."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from chat_proxy.caches import cached_once
from chat_proxy.chat.body.json_writer import serialise_ascii
from chat_proxy.chat.body.parsing import (
    has_long_integers,
    may_be_lossy,
    may_repeat_a_key,
    parse,
    parse_leniently,
    settled,
    with_single_keys,
)
from chat_proxy.chat.body.prefixes import BLOCK_BYTES, INSIDE, NOTHING, BodyPrefix, BodyPrefixes
from chat_proxy.chat.conversation import Conversation, PrefixedConversation
from chat_proxy.chat.message_features import is_list_of_objects
from chat_proxy.errors import BadRequest, InvalidJsonRoot, InvalidValue, TooComplex, TooDeep

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
STEPWISE_BYTES = 4 * 1024 * 1024
GLANCE_BYTES = 8 * 1024
_SLICE_BYTES = 256 * 1024
_NESTING = (dict, list)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on the structure of a request."""

    max_depth: int
    max_elements: int
    max_messages: int
    max_choices: int


class ChatRequest:
    """A parsed request; `body` is what is sent upstream if nothing is changed."""

    def __init__(
        self,
        body: bytes,
        fields: dict[str, Any],
        has_lone_surrogates: bool = False,
        next_prefix: BodyPrefix = NOTHING,
        salt: int = 0,
    ) -> None:
        self.body = body
        self.salt = salt
        """The salt of the tenant: what is cached by content is found only with the same one."""
        self.options = fields
        """All fields; without the messages if only the last ones were parsed."""
        self.has_lone_surrogates = has_lone_surrogates
        """Whether a string contains half of a surrogate pair; not checked in the largest bodies."""
        self.next_prefix = next_prefix
        """The prefix that the conversation's next body will probably have, as far as known."""
        model = fields.get("model")
        self.model = model if isinstance(model, str) else ""
        """The model name, empty if the client sent none."""
        self.streams = fields.get("stream") is True
        """Whether the client asked for a stream, which only the JSON value `true` does."""
        self.conversation = self._conversation()
        """The messages; None if they are not a list of objects."""

    @cached_once
    def fields(self) -> dict[str, Any]:
        """All fields of the request."""
        return self.options

    def _conversation(self) -> Conversation | None:
        return Conversation.of(self.options.get("messages"))


class PrefixedRequest(ChatRequest):
    """A request with a known prefix: its first messages are parsed only when they are needed."""

    conversation: Conversation

    def __init__(
        self,
        body: bytes,
        options: dict[str, Any],
        beginning: BodyPrefix,
        rest: list[dict[str, Any]],
        next_prefix: BodyPrefix,
        salt: int,
    ) -> None:
        self._beginning = beginning
        self._grown = PrefixedConversation(beginning, rest, partial(_messages_in, body))
        super().__init__(body, options, next_prefix=next_prefix, salt=salt)

    @cached_once
    def fields(self) -> dict[str, Any]:
        """All fields, in the order of the body."""
        messages = self._grown.fields
        return {**self._beginning.options, "messages": messages, **self.options}

    def _conversation(self) -> Conversation:
        return self._grown


def _messages_in(body: bytes) -> list[dict[str, Any]]:
    """Parse all messages, which cannot fail: prefix and remainder are known to be valid."""
    messages: list[dict[str, Any]] = orjson.loads(body)["messages"]
    return messages


def read_request(
    body: bytes, limits: RequestLimits, prefixes: BodyPrefixes | None = None, salt: int = 0
) -> ChatRequest:
    """Return the parsed request, or raise the BadRequest that explains why it is invalid.

    A body with a known prefix is parsed only after that prefix. The salt is that of the tenant.
    """
    text = body.removeprefix(BYTE_ORDER_MARK)
    _check_elements(text, limits.max_elements)
    if len(text) > STEPWISE_BYTES:
        return _read_stepwise(text, body, limits, salt)
    if prefixes is not None and text is body and len(body) >= BLOCK_BYTES:
        grown = _read_after_prefix(body, limits, prefixes, salt)
        return grown or _read_whole(text, body, limits, prefixes, salt)
    return _read_whole(text, body, limits, None, salt)


def _read_after_prefix(
    body: bytes, limits: RequestLimits, prefixes: BodyPrefixes, salt: int
) -> ChatRequest | None:
    """Parse what follows a known prefix; None if the whole body must be parsed.

    The remainder parses from there if and only if the whole body does.
    """
    prefix = prefixes.find(body, salt)
    if prefix is NOTHING or not prefix.messages:
        return None
    remainder = INSIDE + body[prefix.end :]
    try:
        fields = orjson.loads(remainder)
    except orjson.JSONDecodeError:
        return None
    if may_be_lossy(remainder, fields) or not prefix.options.keys().isdisjoint(fields):
        return None
    rest = fields["messages"][1:]
    if _is_too_deep(fields, remainder, limits) or not is_list_of_objects(rest):
        return None
    options = {**prefix.options, **fields}
    del options["messages"]
    if _limit_error(prefix.messages + len(rest), options.get("n"), limits):
        return None
    next_prefix = prefixes.learn(body, fields, prefix, salt)
    return PrefixedRequest(body, options, prefix, rest, next_prefix, salt)


def _read_whole(
    text: bytes, body: bytes, limits: RequestLimits, prefixes: BodyPrefixes | None, salt: int
) -> ChatRequest:
    fields, refusal = parse(text)
    _check_structure(fields, limits, text)
    next_prefix = NOTHING
    if may_be_lossy(text, fields):
        if has_long_integers(fields.get("messages")):
            fields = parse_leniently(text)
        if may_repeat_a_key(text, fields):
            fields, body = with_single_keys(text, fields, body)
    elif prefixes is not None and not refusal:
        next_prefix = prefixes.learn(body, fields, NOTHING, salt)
    return ChatRequest(body, fields, "surrogate" in refusal, next_prefix, salt)


def _read_stepwise(text: bytes, body: bytes, limits: RequestLimits, salt: int) -> ChatRequest:
    """Parse a large body in many short steps; orjson would hold the GIL for the whole of it."""
    fields, is_settled = settled(text, stepwise=True)
    _check_structure(fields, limits, text)
    return ChatRequest(serialise_ascii(fields) if is_settled else body, fields, salt=salt)


def _check_structure(fields: object, limits: RequestLimits, text: bytes) -> None:
    if not isinstance(fields, dict):
        raise InvalidJsonRoot
    if _is_too_deep(fields, text, limits):
        raise TooDeep(f"The body is nested deeper than {limits.max_depth} levels.")
    messages = fields.get("messages")
    count = len(messages) if isinstance(messages, list) else 0
    error = _limit_error(count, fields.get("n"), limits)
    if error is not None:
        raise error


def _is_too_deep(fields: object, text: bytes, limits: RequestLimits) -> bool:
    """Return whether the fields are nested too deep; a small text with few brackets is not."""
    if len(text) <= GLANCE_BYTES and _count_marks(text, (b"{", b"[")) <= limits.max_depth:
        return False
    return is_deeper_than(limits.max_depth, fields)


def is_deeper_than(limit: int, value: object) -> bool:
    """Return whether lists and objects are nested more than `limit` levels deep."""
    level: list[Any] = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) in _NESTING
        ]
        if not level:
            return False
    return True


def _check_elements(text: bytes, max_elements: int) -> None:
    """Raise TooComplex if the body has too many elements.

    The count goes slice by slice, so that an extreme body is rejected within its first megabytes.
    """
    if len(text) <= max_elements:
        return
    elements = 0
    for start in range(0, len(text), _SLICE_BYTES):
        elements += _count_marks(text[start : start + _SLICE_BYTES], (b"{", b"[", b","))
        if elements > max_elements:
            raise TooComplex(f"The body has more than {max_elements} elements.")


def _count_marks(text: bytes, marks: Iterable[bytes]) -> int:
    """Count the marks; `replace` jumps from one to the next, while `count` reads every byte."""
    count = 0
    for mark in marks:
        count += len(text) - len(text.replace(mark, b""))
    return count


def _limit_error(messages: int, choices: object, limits: RequestLimits) -> BadRequest | None:
    """Return the error for too many messages or choices, if there are too many."""
    if messages > limits.max_messages:
        return InvalidValue(
            f"At most {limits.max_messages} messages are allowed.", param="messages"
        )
    if isinstance(choices, int | float) and choices > limits.max_choices:
        return InvalidValue(f"At most {limits.max_choices} choices are allowed.", param="n")
    return None
