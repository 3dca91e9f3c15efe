"""The command `/compact` in a conversation, and what the proxy replied to it."""

from typing import Any

import pytest

from chat_proxy.compaction.summary.commands import (
    COMPLETE,
    FAILED,
    after_commands,
    instruction_in,
    is_answered_command,
)
from tests.unit.chat.shapes import Fields, calls, image, result, says, system, text, user

DONE = says(f"{COMPLETE}\n12 messages compacted")
REFUSED = says(f"{FAILED} there is nothing to compact.")


@pytest.mark.parametrize(
    ("said", "instruction"),
    [
        ("/compact", ""),
        ("  /compact \n", ""),
        ("/compact keep the names", "keep the names"),
        ("/compact\nkeep\nthe names ", "keep\nthe names"),
        ([text("/compact keep the names")], "keep the names"),
    ],
)
def test_a_command_may_have_an_instruction(said: Any, instruction: str) -> None:
    assert instruction_in(user(said)) == instruction


@pytest.mark.parametrize(
    "message",
    [
        user("/compacted"),
        user("Say /compact"),
        user(""),
        user(None),
        user([]),
        user([text("/compact"), text("all")]),
        user([image()]),
        user(["/compact"]),
        says("/compact"),
        system("/compact"),
        result("a", "/compact"),
        {},
    ],
)
def test_other_messages_are_no_commands(message: Fields) -> None:
    assert instruction_in(message) is None


def test_a_command_and_any_answer_are_an_answered_command() -> None:
    assert is_answered_command(user("/compact"), DONE)
    assert is_answered_command(user("/compact"), says("What?"))
    assert not is_answered_command(user("hi"), DONE)
    assert not is_answered_command(user("/compact"), user("hi"))
    assert not is_answered_command(user("/compact"), calls("a"))


@pytest.mark.parametrize(
    ("messages", "after"),
    [
        ([user("/compact"), DONE, user()], 2),
        ([user("/compact"), REFUSED, user()], 2),
        ([user("/compact"), DONE, user("/compact"), DONE, user()], 4),
        ([user("/compact"), says("What?"), user()], 0),
        ([user("/compact"), says([text(COMPLETE)]), user()], 0),
        ([user("/compact")], 0),
        ([user(), says()], 0),
        ([], 0),
    ],
)
def test_commands_that_the_proxy_answered_are_passed_over(
    messages: list[Fields], after: int
) -> None:
    assert after_commands(messages, 0) == after


def test_only_commands_from_the_start_on_are_passed_over() -> None:
    messages = [user(), says(), user("/compact"), DONE, user()]

    assert after_commands(messages, 0) == 0
    assert after_commands(messages, 2) == 4
    assert after_commands(messages, 5) == 5
