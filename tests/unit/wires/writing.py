"""Read a body, change its conversation, and write it again."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.routes.read_request import read_wire
from chat_proxy.wires.body import body_with
from chat_proxy.wires.request import WireRequest
from chat_proxy.wires.wire import Wire

Fields = dict[str, Any]
LIMITS = RequestLimits(max_depth=64, max_elements=500_000, max_messages=10_000, max_choices=16)


def request_of(wire: Wire, body: Fields | bytes) -> WireRequest:
    """Return a body as it is read."""
    given = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = read_wire(given, LIMITS, wire, None, 0)
    assert isinstance(request, WireRequest)
    return request


def conversation_of(wire: Wire, body: Fields | bytes) -> Conversation:
    """Return the conversation of a body, which has one."""
    conversation = request_of(wire, body).conversation
    assert conversation is not None
    return conversation


def messages_of(wire: Wire, body: Fields) -> list[Fields]:
    """Return the messages that are read from a body."""
    return list(conversation_of(wire, body).fields)


def rewritten(
    wire: Wire,
    body: Fields,
    change: Callable[[Conversation], Conversation],
    output: Mapping[str, int] | None = None,
) -> Fields:
    """Return a body whose conversation is changed so."""
    request = request_of(wire, body)
    assert request.conversation is not None
    changed = change(request.conversation)
    return dict(json.loads(body_with(request, request.conversation, changed, output)))


def with_contents(contents: Mapping[int, Any]) -> Callable[[Conversation], Conversation]:
    """Return a change that gives other contents to some messages."""

    def change(conversation: Conversation) -> Conversation:
        messages = conversation.messages
        return conversation.with_messages(
            {index: messages[index].with_content(content) for index, content in contents.items()}
        )

    return change


def with_arguments(index: int, *arguments: str) -> Callable[[Conversation], Conversation]:
    """Return a change that gives other arguments to the calls of a message."""

    def change(conversation: Conversation) -> Conversation:
        fields = conversation.messages[index].fields
        calls = [
            {**call, key: {**call[key], name: text}}
            for call, text in zip(fields["tool_calls"], arguments, strict=True)
            for key, name in (("function", "arguments"), ("custom", "input"))
            if key in call
        ]
        return conversation.with_messages({index: Message({**fields, "tool_calls": calls})})

    return change


def only(*indexes: int) -> Callable[[Conversation], Conversation]:
    """Return a change that leaves all but some messages out."""
    return lambda conversation: conversation.only(indexes)


def folded(start: int, end: int, text: str = "So far.") -> Callable[[Conversation], Conversation]:
    """Return a change that puts a user's text and an answer in the place of some messages."""

    def change(conversation: Conversation) -> Conversation:
        new = [
            Message({"role": "user", "content": text}),
            Message({"role": "assistant", "content": "Yes."}),
        ]
        messages: Sequence[Message] = conversation.messages
        origins: list[int | None] = [*conversation.origins[:start], None, None]
        return Conversation(
            [*messages[:start], *new, *messages[end:]], [*origins, *conversation.origins[end:]]
        )

    return change
