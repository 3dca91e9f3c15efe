"""The tool results of a conversation: messages of their own, or folded into the model's text."""

from collections.abc import Iterator
from dataclasses import dataclass

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import folded_results
from chat_proxy.chat.message import Message
from chat_proxy.chat.result_texts import texts_in
from chat_proxy.chat.texts import pieces_of
from chat_proxy.chat.tool_names import tool_name_of_results
from chat_proxy.compaction.clearing import Place


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One result: where it is, whose it is and what it says."""

    index: int
    place: Place
    name: str
    """The tool's name, empty if nobody said it."""
    texts: tuple[str, ...]


def tool_results(conversation: Conversation) -> list[ToolResult]:
    """Return every result of the client's own messages, the oldest first."""
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
            found += _folded_in(message, index, origin)
    return found


def rendered_texts(message: Message) -> tuple[str, ...]:
    """Return all that a chat template renders of a tool message's content."""
    if type(message.content) is str:
        return (message.content,)
    bare = {"role": "tool", "content": message.content}
    return tuple(text for _, text in pieces_of(bare))


def seen_until(conversation: Conversation) -> int:
    """Return the place from which on the model has not answered yet.

    A call stays with its results; a last message of the model's own is one that it goes on with.
    """
    messages = conversation.messages
    end = len(messages)
    while end and messages[end - 1].is_assistant:
        end -= 1
    last = next((at for at in reversed(range(end)) if messages[at].is_assistant), None)
    if last is None:
        return 0
    group = next(group for group in reversed(conversation.groups) if group.start <= last)
    return group.start if group.end > last + 1 else last + 1


def _folded_in(message: Message, index: int, origin: int) -> Iterator[ToolResult]:
    results = (result for _, text in texts_in(message) for result in folded_results(text))
    for part, result in enumerate(results):
        yield ToolResult(index, Place(origin, part), result.name, (result.text,))
