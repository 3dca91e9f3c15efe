"""Replace the older messages of a conversation by one folded text."""

from collections.abc import Iterable
from typing import Final

from chat_proxy.chat.conversation import Conversation, carried
from chat_proxy.chat.message import Message
from chat_proxy.compaction.summary.commands import without_commands

ACKNOWLEDGEMENT: Final = "Understood. I go on from here."

_Entry = tuple[Message, int | None]


def fold(conversation: Conversation, end: int, text: str) -> Conversation:
    """Return the conversation with `text` in place of the messages before `end`.

    The leading instructions stay, and a turn that `end` divides keeps its user messages. Commands
    behind the fold that asked for it are left out.
    """
    end = max(end, conversation.instructions)
    original: list[_Entry] = list(zip(conversation.messages, conversation.origins, strict=True))
    kept = carried(conversation, end)
    entries = [*original[: conversation.instructions], _new("user", text)]
    rest = without_commands(conversation.fields, end)
    begins_with_user = _begins_with_user(conversation.messages[index] for index in rest)
    if kept or begins_with_user:
        entries.append(_new("assistant", ACKNOWLEDGEMENT))
    for position, index in enumerate(kept):
        # User messages that had an answer between them must not become adjacent.
        if position and kept[position - 1] != index - 1:
            entries.append(_new("assistant", ACKNOWLEDGEMENT))
        entries.append(original[index])
    if kept and begins_with_user:
        entries.append(_new("assistant", ACKNOWLEDGEMENT))
    entries += [original[index] for index in rest]
    return Conversation([message for message, _ in entries], [origin for _, origin in entries])


def _begins_with_user(messages: Iterable[Message]) -> bool:
    """Return whether the first of these messages is the user's; instructions are ignored."""
    first = next((message for message in messages if not message.is_instruction), None)
    return first is not None and first.is_user


def _new(role: str, text: str) -> _Entry:
    return Message({"role": role, "content": text}), None
