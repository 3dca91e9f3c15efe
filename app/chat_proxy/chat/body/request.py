"""A chat request: the client's bytes and the parsed fields that the proxy needs."""

from functools import partial
from typing import Any

import orjson

from chat_proxy.caches import cached_once
from chat_proxy.chat.body.parsed_body import (
    BYTE_ORDER_MARK,
    STEPWISE_BYTES,
    ParsedBody,
    RequestLimits,
    bounded_structure,
    count_elements,
    limit_error,
    parse_stepwise,
    parse_whole,
)
from chat_proxy.chat.body.parsing import may_be_lossy
from chat_proxy.chat.body.prefixes import BLOCK_BYTES, INSIDE, NOTHING, BodyPrefix, BodyPrefixes
from chat_proxy.chat.body.structure import Structure
from chat_proxy.chat.conversation import Conversation, PrefixedConversation
from chat_proxy.chat.message_features import is_list_of_objects

MEMORY_BYTES_PER_BYTE = 4


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
        return request_of(parse_stepwise(text, body, limits), salt)
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
    structure = bounded_structure(fields, remainder, limits)
    if structure.depth > limits.max_depth or not is_list_of_objects(rest):
        return None
    options = {**prefix.options, **fields}
    del options["messages"]
    if limit_error(prefix.messages + len(rest), options.get("n"), limits):
        return None
    next_prefix = prefixes.learn(body, fields, prefix, salt)
    request = PrefixedRequest(body, options, prefix, rest, next_prefix, salt)
    request.structure = prefix.structure.combined_with(structure)
    return request


def _read_whole(
    text: bytes, body: bytes, limits: RequestLimits, prefixes: BodyPrefixes | None, salt: int
) -> ChatRequest:
    parsed = parse_whole(text, body, limits)
    next_prefix = NOTHING
    if prefixes is not None and parsed.is_exact:
        next_prefix = prefixes.learn(body, parsed.fields, NOTHING, salt)
    return request_of(parsed, salt, next_prefix)


def request_of(parsed: ParsedBody, salt: int, next_prefix: BodyPrefix = NOTHING) -> ChatRequest:
    """Return the request that a body is."""
    request = ChatRequest(parsed.body, parsed.fields, parsed.has_lone_surrogates, next_prefix, salt)
    request.structure = parsed.structure
    return request
