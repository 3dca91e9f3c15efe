"""Commands in the conversation: `/compact [instruction]` as the last user message."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chat_proxy.chat.body.parsed_body import ParsedBody
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.summary.commands import instruction_in, is_answered_command
from chat_proxy.wires.body import body_with, has_stored_history
from chat_proxy.wires.request import WireRequest


@dataclass(frozen=True, slots=True)
class Command:
    """A command to compact the messages before it."""

    request: ChatRequest
    """The client's request, to be answered by the proxy itself."""
    before: ChatRequest
    """The request with the conversation before the command."""
    instruction: str


def command_in(request: ChatRequest) -> Command | None:
    """Return the command that ends a request, if one does."""
    conversation = request.conversation
    if conversation is None or not len(conversation) or has_stored_history(request):
        return None
    instruction = instruction_in(conversation.rest[-1])
    if instruction is None:
        return None
    end = _end_without_commands(conversation.fields)
    return Command(request, _until(request, conversation, end), instruction)


def _until(request: ChatRequest, conversation: Conversation, end: int) -> ChatRequest:
    """Return the request with only the messages before `end`."""
    body = body_with(request, conversation, conversation.only(range(end)))
    if isinstance(request, WireRequest):
        return WireRequest(request.wire, ParsedBody(body, json.loads(body)), request.salt)
    fields = {**request.fields, "messages": conversation.fields[:end]}
    return ChatRequest(body, fields, salt=request.salt)


def _end_without_commands(messages: Sequence[dict[str, Any]]) -> int:
    """Return the end of the conversation without trailing commands and their replies."""
    end = len(messages) - 1
    while end > 1 and is_answered_command(*messages[end - 2 : end]):
        end -= 2
    return end
