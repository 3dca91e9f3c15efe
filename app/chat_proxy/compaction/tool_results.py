"""The tool results of a conversation: tool messages, or embedded in assistant text."""

from collections.abc import Iterator
from dataclasses import dataclass

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import embedded_results
from chat_proxy.chat.message import Message
from chat_proxy.chat.result_texts import texts_in
from chat_proxy.chat.texts import pieces_of
from chat_proxy.chat.tool_names import tool_name_of_results
from chat_proxy.compaction.ageing.treatments import Place


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One tool result: its position, its tool and its texts."""

    index: int
    place: Place
    name: str
    """The tool's name, empty if unknown."""
    texts: tuple[str, ...]


def tool_results(conversation: Conversation) -> list[ToolResult]:
    """Return every tool result in the client's own messages, oldest first."""
    names = tool_name_of_results(conversation)
    found = []
    for index, message in enumerate(conversation.messages):
        origin = conversation.origins[index]
        if origin is None:
            continue
        if message.is_tool_result:
            name = names.get(index, "")
            found.append(ToolResult(index, Place(origin), name, rendered_texts(message)))
        elif message.is_assistant:
            found += _embedded_in(message, index, origin)
    return found


def rendered_texts(message: Message) -> tuple[str, ...]:
    """Return every text that a chat template renders of a tool message's content."""
    if type(message.content) is str:
        return (message.content,)
    bare = {"role": "tool", "content": message.content}
    return tuple(text for _, text in pieces_of(bare))


def _embedded_in(message: Message, index: int, origin: int) -> Iterator[ToolResult]:
    results = (result for _, text in texts_in(message) for result in embedded_results(text))
    for part, result in enumerate(results):
        yield ToolResult(index, Place(origin, part), result.name, (result.text,))
