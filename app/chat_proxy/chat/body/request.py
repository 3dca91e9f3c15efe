"""A chat request: the client's bytes, and what must be known of them to send them on."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from chat_proxy.caches import cached_once
from chat_proxy.chat.body.parsing import (
    dumped,
    holds_long_integers,
    may_have_lost,
    may_repeat_a_key,
    parse,
    parse_leniently,
    settled,
    with_single_keys,
)
from chat_proxy.chat.body.prefixes import INSIDE, NOTHING, Beginning, BodyPrefixes
from chat_proxy.chat.conversation import Conversation, GrownConversation
from chat_proxy.chat.message_features import is_list_of_objects
from chat_proxy.errors import BadRequest, InvalidJsonRoot, InvalidValue, TooComplex, TooDeep

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
STEPWISE_BYTES = 4 * 1024 * 1024
GLANCE_BYTES = 8 * 1024
_SLICE_BYTES = 256 * 1024
_NESTING = (dict, list)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How large a request's structure may be."""

    max_depth: int
    max_elements: int
    max_messages: int
    max_choices: int


class ChatRequest:
    """A request that was read once; `body` is what the upstream gets when nothing is changed."""

    def __init__(
        self,
        body: bytes,
        fields: dict[str, Any],
        has_lone_surrogates: bool = False,
        lasting: Beginning = NOTHING,
    ) -> None:
        self.body = body
        self.options = fields
        """All fields; where only the last messages were read, without any."""
        self.has_lone_surrogates = has_lone_surrogates
        """Whether a text is cut through a character; nobody looks for it in the largest bodies."""
        self.lasting = lasting
        """How the conversation's next body will begin, as far as that is known."""
        model = fields.get("model")
        self.model = model if isinstance(model, str) else ""
        """The model's name, empty if the client sent none."""

    @cached_once
    def fields(self) -> dict[str, Any]:
        """All fields."""
        return self.options

    @cached_once
    def conversation(self) -> Conversation | None:
        """The messages; None if their shape is not understood."""
        return Conversation.of(self.options.get("messages"))

    @property
    def streams(self) -> bool:
        """Whether the client asked for a stream: only JSON's true does."""
        return self.options.get("stream") is True


class GrownRequest(ChatRequest):
    """A request that begins as one before: its first messages are read when they are asked for."""

    def __init__(
        self,
        body: bytes,
        options: dict[str, Any],
        beginning: Beginning,
        rest: list[dict[str, Any]],
        lasting: Beginning,
    ) -> None:
        super().__init__(body, options, lasting=lasting)
        self._beginning = beginning
        self._rest = rest

    @cached_once
    def fields(self) -> dict[str, Any]:
        """All fields, as they stand in the body."""
        messages = self.conversation.fields
        return {**self._beginning.options, "messages": messages, **self.options}

    @cached_once
    def conversation(self) -> Conversation:
        """The messages."""
        return GrownConversation(self._beginning, self._rest, partial(_messages_in, self.body))


def _messages_in(body: bytes) -> list[dict[str, Any]]:
    """Return all messages; that they can be read is known of the beginning and of the rest."""
    messages: list[dict[str, Any]] = orjson.loads(body)["messages"]
    return messages


def read_request(
    body: bytes, limits: RequestLimits, beginnings: BodyPrefixes | None = None
) -> ChatRequest:
    """Return the request, or raise the BadRequest that says why it cannot be read.

    One that begins as one before is read from there on.
    """
    text = body.removeprefix(BYTE_ORDER_MARK)
    _check_elements(text, limits.max_elements)
    if len(text) > STEPWISE_BYTES:
        return _read_stepwise(text, body, limits)
    if beginnings is not None and text is body:
        grown = _read_on(body, limits, beginnings)
        return grown or _read_whole(text, body, limits, beginnings)
    return _read_whole(text, body, limits)


def _read_on(body: bytes, limits: RequestLimits, beginnings: BodyPrefixes) -> ChatRequest | None:
    """Read what stands behind a beginning that is known; None if the whole must be looked at.

    The rest can be read from there exactly if the whole can be read.
    """
    begun = beginnings.find(body)
    if begun is NOTHING or not begun.messages:
        return None
    behind = INSIDE + body[begun.end :]
    try:
        fields = orjson.loads(behind)
    except orjson.JSONDecodeError:
        return None
    if may_have_lost(behind, fields) or not begun.options.keys().isdisjoint(fields):
        return None
    rest = fields["messages"][1:]
    if _is_too_deep(fields, behind, limits) or not is_list_of_objects(rest):
        return None
    options = {**begun.options, **fields}
    del options["messages"]
    if _complaint_about(begun.messages + len(rest), options.get("n"), limits):
        return None
    lasting = beginnings.learn(body, fields, begun)
    return GrownRequest(body, options, begun, rest, lasting)


def _read_whole(
    text: bytes, body: bytes, limits: RequestLimits, beginnings: BodyPrefixes | None = None
) -> ChatRequest:
    fields, refusal = parse(text)
    _check_structure(fields, limits, text)
    lasting = NOTHING
    if may_have_lost(text, fields):
        if holds_long_integers(fields.get("messages")):
            fields = parse_leniently(text)
        if may_repeat_a_key(text, fields):
            fields, body = with_single_keys(text, fields, body)
    elif beginnings is not None and not refusal:
        lasting = beginnings.learn(body, fields)
    return ChatRequest(body, fields, "surrogate" in refusal, lasting)


def _read_stepwise(text: bytes, body: bytes, limits: RequestLimits) -> ChatRequest:
    """Read a large body without one long step; the parser for small ones would be one."""
    fields, is_settled = settled(text, stepwise=True)
    _check_structure(fields, limits, text)
    return ChatRequest(dumped(fields) if is_settled else body, fields)


def _check_structure(fields: object, limits: RequestLimits, text: bytes) -> None:
    if not isinstance(fields, dict):
        raise InvalidJsonRoot
    if _is_too_deep(fields, text, limits):
        raise TooDeep(f"The body is nested deeper than {limits.max_depth} levels.")
    messages = fields.get("messages")
    count = len(messages) if isinstance(messages, list) else 0
    complaint = _complaint_about(count, fields.get("n"), limits)
    if complaint is not None:
        raise complaint


def _is_too_deep(fields: object, text: bytes, limits: RequestLimits) -> bool:
    """Tell whether what was read is nested too deep: a small text by its few brackets."""
    if len(text) <= GLANCE_BYTES and _marks_in(text, (b"{", b"[")) <= limits.max_depth:
        return False
    return is_deeper_than(limits.max_depth, fields)


def is_deeper_than(limit: int, value: object) -> bool:
    """Tell whether lists and objects are nested more than `limit` deep."""
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
    """Count by slices, so that a body made of nothing else is refused at its first megabytes."""
    if len(text) <= max_elements:
        return
    elements = 0
    for start in range(0, len(text), _SLICE_BYTES):
        elements += _marks_in(text[start : start + _SLICE_BYTES], (b"{", b"[", b","))
        if elements > max_elements:
            raise TooComplex(f"The body has more than {max_elements} elements.")


def _marks_in(text: bytes, marks: Iterable[bytes]) -> int:
    """Count the marks: `replace` leaps from one to the next, `count` looks at every byte."""
    count = 0
    for mark in marks:
        count += len(text) - len(text.replace(mark, b""))
    return count


def _complaint_about(messages: int, choices: object, limits: RequestLimits) -> BadRequest | None:
    """Return the error that says of what there are too many, if there are."""
    if messages > limits.max_messages:
        return InvalidValue(
            f"At most {limits.max_messages} messages are allowed.", param="messages"
        )
    if isinstance(choices, int | float) and choices > limits.max_choices:
        return InvalidValue(f"At most {limits.max_choices} choices are allowed.", param="n")
    return None
