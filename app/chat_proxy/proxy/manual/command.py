"""Commands in the conversation: `/compact [instruction]` as the last user message."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.body.splice import splice
from chat_proxy.chat.message import Message

_COMPACT = re.compile(r"/compact(?:\s+(\S.*))?", re.DOTALL)


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
    if conversation is None or not len(conversation):
        return None
    instruction = _instruction_in(conversation.rest[-1])
    if instruction is None:
        return None
    end = _end_without_commands(conversation.fields)
    fields = {**request.fields, "messages": conversation.fields[:end]}
    body = splice(request.body, range(end), request.fields)
    return Command(request, ChatRequest(body, fields), instruction)


def _instruction_in(message: dict[str, Any]) -> str | None:
    """Return the instruction after a command's name, None if the message is no command."""
    if message.get("role") != "user":
        return None
    content = message.get("content")
    if type(content) is list and len(content) == 1 and type(content[0]) is dict:
        content = content[0].get("text")
    if type(content) is not str or "/compact" not in content:
        return None  # almost all messages: skip the copy and the regex
    found = _COMPACT.fullmatch(content.strip())
    return (found[1] or "") if found else None


def _end_without_commands(messages: Sequence[dict[str, Any]]) -> int:
    """Return the end of the conversation without trailing commands and their replies."""
    end = len(messages) - 1
    while end > 1 and _is_answered_command(*messages[end - 2 : end]):
        end -= 2
    return end


def _is_answered_command(command: dict[str, Any], reply: dict[str, Any]) -> bool:
    answer = Message(reply)
    return answer.is_assistant and not answer.calls_tools and _instruction_in(command) is not None
