"""Remove the thinking of older turns as a client asks for it, in whole blocks."""

from typing import NamedTuple

from chat_proxy.chat.conversation import Conversation, Turn
from chat_proxy.chat.message import Message
from chat_proxy.chat.texts import is_reasoning
from chat_proxy.wires.contracts.contract import ClearThinking


class WithoutThinking(NamedTuple):
    """A conversation without the thinking of older turns, and how many turns lost theirs."""

    conversation: Conversation
    """The same object if nothing was removed."""
    turns: int = 0


def without_thinking(conversation: Conversation, wish: ClearThinking) -> WithoutThinking:
    """Remove the thinking of all turns but the newest that have some.

    What is removed depends on the client's list alone, and only ever grows with it: nothing needs
    to be remembered. A message that would be left empty stays whole.
    """
    if wish.keep_turns is None:
        return WithoutThinking(conversation)
    thinking = [turn for turn in conversation.turns if _has_thinking(conversation, turn)]
    older = thinking[: -wish.keep_turns]
    changed = {
        index: _without_thinking(conversation.messages[index])
        for turn in older
        for index in range(turn.start, turn.end)
        if _can_lose_thinking(conversation.messages[index])
    }
    return WithoutThinking(conversation.with_messages(changed), len(older))


def _has_thinking(conversation: Conversation, turn: Turn) -> bool:
    messages = conversation.messages[turn.start : turn.end]
    return any(_can_lose_thinking(message) for message in messages)


def _can_lose_thinking(message: Message) -> bool:
    """Return whether a message has thinking, and something else beside it."""
    content = message.content
    if not message.is_assistant or type(content) is not list:
        return False
    thinking = sum(map(is_reasoning, content))
    return thinking > 0 and (thinking < len(content) or message.calls_tools)


def _without_thinking(message: Message) -> Message:
    kept = [block for block in message.content if not is_reasoning(block)]
    return message.with_content(kept or None)
