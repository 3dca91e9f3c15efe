"""The thinking of older turns is removed in whole blocks; nothing else changes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.compaction.contracts.clear_thinking import without_thinking
from chat_proxy.wires.contracts.contract import ClearThinking
from tests.unit.chat.shapes import Fields, text, user

THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "x"}


def says(*blocks: Fields, **fields: Any) -> Fields:
    return {"role": "assistant", "content": list(blocks), **fields}


def conversation(*messages: Fields) -> Conversation:
    return Conversation([Message(fields) for fields in messages])


def turn(number: int) -> list[Fields]:
    return [user(f"question {number}"), says(THOUGHT, REDACTED, text(f"answer {number}"))]


def thinking_in(found: Conversation) -> list[int]:
    """The messages that have thinking."""
    contents = [message.content for message in found.messages]
    blocks = [content if type(content) is list else [] for content in contents]
    return [at for at, said in enumerate(blocks) if THOUGHT in said or REDACTED in said]


def test_all_thinking_is_kept_by_the_very_same_object() -> None:
    given = conversation(*turn(1), *turn(2))

    kept = without_thinking(given, ClearThinking(None))

    assert kept.conversation is given
    assert kept.turns == 0


def test_the_newest_turns_with_thinking_keep_it() -> None:
    given = conversation(*turn(1), *turn(2), *turn(3), user("now?"))

    one, two, many = (without_thinking(given, ClearThinking(keep)) for keep in (1, 2, 3))

    assert (thinking_in(one.conversation), one.turns) == ([5], 2)
    assert (thinking_in(two.conversation), two.turns) == ([3, 5], 1)
    assert many.conversation is given
    assert one.conversation.messages[1].content == [text("answer 1")]


def test_all_steps_of_a_turn_are_one_turn_of_thinking() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    steps = [
        says(THOUGHT, tool_calls=[call]),
        {"role": "tool", "tool_call_id": "a", "content": "x"},
    ]
    given = conversation(*turn(1), user("go"), *steps, says(THOUGHT, text("done")))

    kept = without_thinking(given, ClearThinking(1))

    assert (thinking_in(kept.conversation), kept.turns) == ([3, 5], 1)
    cleared = without_thinking(conversation(user("go"), *steps, *turn(2)), ClearThinking(1))
    assert cleared.conversation.messages[1].content is None
    assert cleared.conversation.messages[1].calls_tools


def test_a_message_of_thinking_alone_stays_whole() -> None:
    given = conversation(user("a"), says(THOUGHT), *turn(2), *turn(3))

    kept = without_thinking(given, ClearThinking(1))

    assert (thinking_in(kept.conversation), kept.turns) == ([1, 5], 1)


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 4))
def test_what_was_removed_is_removed_for_ever(thinks: list[bool], keep: int) -> None:
    messages = [
        message
        for number, thinking in enumerate(thinks)
        for message in (turn(number) if thinking else [user("q"), says(text("a"))])
    ]
    before: set[int] = set()
    for end in range(0, len(messages) + 1, 2):
        given = conversation(*messages[:end])
        kept = without_thinking(given, ClearThinking(keep)).conversation
        removed = set(thinking_in(given)) - set(thinking_in(kept))
        assert before <= removed
        before = removed
