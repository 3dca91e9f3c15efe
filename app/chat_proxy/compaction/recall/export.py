"""Write messages for people and programs who take a conversation elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.chat.tool_names import tool_name_of_results
from chat_proxy.compaction.summary.transcript import body_of

_UNBOUNDED: Final = 1 << 40
_FENCE: Final = "```"


def as_jsonl(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return a line of JSON for each message, as the client sent it."""
    return "".join(serialise(message).decode() + "\n" for message in messages)


def as_markdown(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the messages as Markdown; results and calls of tools stand in fences."""
    read = [Message(dict(message)) for message in messages]
    tools = tool_name_of_results(Conversation(read))
    return "\n".join(
        _section(number, message, tools.get(number, "")) for number, message in enumerate(read)
    )


def _section(number: int, message: Message, tool: str) -> str:
    text = body_of(message, "", _UNBOUNDED)
    title = f"## {number} · {message.role}" + (f" · {tool}" if tool else "")
    if message.is_tool_result:
        fence = _FENCE
        while fence in text:
            fence += "`"
        text = f"{fence}\n{text}\n{fence}"
    return f"{title}\n\n{text}\n"
