"""User messages that only carry the media of tool results belong to the results before them."""

from typing import Any

import pytest

from chat_proxy.chat.conversation import turns_by_role
from tests.unit.chat.shapes import Fields, calls, conversation, image, result, says, text, user

AUDIO = {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
LABELS = [
    [],
    [text("")],
    [text("Attached image(s) from tool result:")],
    [text("[Image from tool output]")],
    [text("Screenshot:")],
    [text("The attached files:")],
    ["Images returned by the tool"],
]
WORDS = [
    "What is this?",
    "Attached is what I mean. Do it like that!",
    "Look",
    "Images like this one please",
    "image:\nmake it so",
]


def given(content: Any) -> list[Fields]:
    return [user("Task"), calls("a"), result("a"), user(content), says("Well.")]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("part", [image(), AUDIO])
def test_attachments_of_a_result_begin_no_turn(label: list[Any], part: Fields) -> None:
    chat = conversation(*given([*label, part]))

    assert chat.attachments == {3}
    assert [(turn.start, turn.end, turn.users) for turn in chat.turns] == [(0, 5, (0,))]
    assert [tuple(group) for group in chat.groups] == [(0, 1), (1, 4), (4, 5)]
    assert len(turns_by_role(chat)) == 2


def test_several_messages_with_attachments_belong_to_the_same_result() -> None:
    chat = conversation(user(), calls("a"), result("a"), user([image()]), user([image()]), user())

    assert chat.attachments == {3, 4}
    assert [turn.users for turn in chat.turns] == [(0,), (5,)]


@pytest.mark.parametrize("words", WORDS)
def test_what_the_user_says_begins_a_turn(words: str) -> None:
    chat = conversation(*given([text(words), image()]))

    assert not chat.attachments
    assert [turn.start for turn in chat.turns] == [0, 3]


@pytest.mark.parametrize("content", [None, "", "Screenshot:", [text("Screenshot:")], image()])
def test_a_message_without_a_list_of_media_begins_a_turn(content: Any) -> None:
    assert len(conversation(*given(content)).turns) == 2


def test_media_behind_an_answer_or_at_the_start_begin_a_turn() -> None:
    shown = user([image()])

    assert not conversation(shown).attachments
    assert len(conversation(user(), says(), shown).turns) == 2
    assert len(conversation(user(), calls("a"), result("a"), says(), shown).turns) == 2


def test_attachments_behind_a_result_without_a_call_stand_alone() -> None:
    chat = conversation(user(), result("orphan"), user([image()]))

    assert [tuple(group) for group in chat.groups] == [(0, 1), (1, 2), (2, 3)]
    assert [turn.users for turn in chat.turns] == [(0,)]
