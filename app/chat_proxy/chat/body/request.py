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
from chat_proxy.chat.body.structure import Structure, is_wide, structure_of
from chat_proxy.chat.conversation import Conversation, PrefixedConversation
from chat_proxy.chat.message_features import is_list_of_objects
from chat_proxy.errors import BadRequest, InvalidJsonRoot, InvalidValue, TooComplex, TooDeep

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
STEPWISE_BYTES = 4 * 1024 * 1024
GLANCE_BYTES = 8 * 1024
VALUE_CHARS = 16
_SLICE_BYTES = 256 * 1024
MEMORY_BYTES_PER_BYTE = 4


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on the structure of a request."""

    max_depth: int
    max_elements: int
    max_messages: int
    max_choices: int


class ChatRequest:
    """A parsed request; `body` is what is sent upstream if nothing is changed."""

    structure = Structure()
    """What the body consists of, as far as it was looked at."""

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

    @cached_once
    def memory_bytes(self) -> int:
        """The memory that the request takes, parsed and looked at."""
        messages = len(self.conversation) if self.conversation is not None else 0
        return self.structure.memory_bytes(len(self.body), messages)

    @property
    def work_bytes(self) -> int:
        """The length of an ordinary body that takes as long to look at as this one."""
        return max(len(self.body), self.memory_bytes // MEMORY_BYTES_PER_BYTE)

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
    count_elements(body, limits.max_elements)
    return read_counted(body, limits, prefixes, salt)


def read_counted(
    body: bytes, limits: RequestLimits, prefixes: BodyPrefixes | None = None, salt: int = 0
) -> ChatRequest:
    """Return the parsed request, whose elements were counted before."""
    text = body.removeprefix(BYTE_ORDER_MARK)
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
    structure = _structure_of(fields, remainder, limits)
    if structure.depth > limits.max_depth or not is_list_of_objects(rest):
        return None
    options = {**prefix.options, **fields}
    del options["messages"]
    if _limit_error(prefix.messages + len(rest), options.get("n"), limits):
        return None
    next_prefix = prefixes.learn(body, fields, prefix, salt)
    request = PrefixedRequest(body, options, prefix, rest, next_prefix, salt)
    request.structure = prefix.structure.combined_with(structure)
    return request


def _read_whole(
    text: bytes, body: bytes, limits: RequestLimits, prefixes: BodyPrefixes | None, salt: int
) -> ChatRequest:
    fields, refusal = parse(text)
    structure = _checked_structure(fields, limits, text)
    next_prefix = NOTHING
    if may_be_lossy(text, fields):
        if has_long_integers(fields.get("messages")):
            fields = parse_leniently(text)
        if may_repeat_a_key(text, fields):
            fields, body = with_single_keys(text, fields, body)
    elif prefixes is not None and not refusal:
        next_prefix = prefixes.learn(body, fields, NOTHING, salt)
    request = ChatRequest(body, fields, "surrogate" in refusal, next_prefix, salt)
    request.structure = structure
    return request


def _read_stepwise(text: bytes, body: bytes, limits: RequestLimits, salt: int) -> ChatRequest:
    """Parse a large body in many short steps; orjson would hold the GIL for the whole of it."""
    fields, is_settled = settled(text, stepwise=True)
    structure = _checked_structure(fields, limits, text)
    request = ChatRequest(serialise_ascii(fields) if is_settled else body, fields, salt=salt)
    request.structure = structure
    return request


def _checked_structure(fields: object, limits: RequestLimits, text: bytes) -> Structure:
    """Return the structure of a request, or raise why it is not accepted."""
    if not isinstance(fields, dict):
        raise InvalidJsonRoot
    structure = _structure_of(fields, text, limits)
    if structure.depth > limits.max_depth:
        raise TooDeep(f"The body is nested deeper than {limits.max_depth} levels.")
    messages = fields.get("messages")
    count = len(messages) if isinstance(messages, list) else 0
    error = _limit_error(count, fields.get("n"), limits)
    if error is not None:
        raise error
    return structure


def _structure_of(fields: object, text: bytes, limits: RequestLimits) -> Structure:
    """Return the structure of the fields; for a small text with few brackets, an upper estimate."""
    if len(text) <= GLANCE_BYTES:
        brackets = count_marks(text, (b"{", b"["))
        if brackets <= limits.max_depth:
            return Structure(brackets, brackets + len(text) // VALUE_CHARS, depth=brackets)
    return structure_of(fields, text)


def count_elements(body: bytes, max_elements: int) -> int:
    """Return how many elements a body has, 0 if it is small; raise TooComplex if it has too many.

    The count goes slice by slice, so that an extreme body is rejected within its first megabytes.
    """
    elements = 0
    for start in range(0, len(body) if len(body) > max_elements else 0, _SLICE_BYTES):
        elements += count_marks(body[start : start + _SLICE_BYTES], (b"{", b"[", b","))
        if elements > max_elements:
            raise TooComplex(f"The body has more than {max_elements} elements.")
    return elements


def expected_bytes(body: bytes, limits: RequestLimits) -> int:
    """Return the memory that a body takes at most, before it is parsed; raise TooComplex."""
    elements = count_elements(body, limits.max_elements)
    wide_bytes = len(body) if is_wide(body) else 0
    return Structure(0, elements, wide_bytes).memory_bytes(len(body), 0)


def count_marks(text: bytes, marks: Iterable[bytes]) -> int:
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
