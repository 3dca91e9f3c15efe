"""What of a conversation a summary is compared with."""

import pytest

from chat_proxy.compaction.summary.validation.task import is_talk, summary_task
from tests.unit.chat.shapes import (
    Fields,
    calls,
    conversation,
    image,
    result,
    says,
    system,
    text,
    user,
)
from tests.unit.compaction.summary.validation.examples import BUILT_IN

DETAILS = '<details type="tool_calls" name="f"><summary>Ran</summary>\nEnglish\n</details>'


def test_tool_results_and_calls_are_no_dialogue() -> None:
    given = conversation(
        system("rules"), user("frage"), calls("1"), result("1", "shown"), says("antwort")
    )

    task = summary_task(given, given.messages[1:], "earlier", 100, BUILT_IN)

    assert task.dialogue.split() == ["frage", "antwort"]
    assert task.user_text == "frage"
    assert task.instructions == "rules"
    assert "rules" not in task.span_text
    for words in ("frage", "get_weather", "Paris", "shown", "antwort"):
        assert words in task.span_text
    assert task.previous == "earlier"
    assert task.needs_sections


def test_the_dialogue_is_of_the_span_and_the_user_s_words_of_all() -> None:
    given = conversation(user("fold"), says("ack"), user("frage"), says("antwort"))

    task = summary_task(given, given.messages[2:], "", 100, BUILT_IN)

    assert task.dialogue == "frage\nantwort"
    assert task.user_text == "fold\nfrage"


def test_results_that_are_embedded_in_texts_are_no_dialogue() -> None:
    given = conversation(user("frage"), says(f"so {DETAILS} weiter"))

    task = summary_task(given, given.messages, "", 100, BUILT_IN)

    assert "English" not in task.dialogue
    assert "weiter" in task.dialogue


@pytest.mark.parametrize(
    "message",
    [
        calls("1"),
        result("1", ""),
        {"role": "function", "name": "f", "content": "20C"},
        says(None, function_call={"name": "f", "arguments": "{}"}),
        says([text("I look."), {"type": "tool_use", "name": "f", "input": {}}]),
        user([{"type": "tool_result", "tool_use_id": "1", "content": "20C"}]),
        says(DETAILS),
    ],
)
def test_whoever_uses_tools_does_not_merely_talk(message: Fields) -> None:
    span = conversation(user("hi"), message).messages

    assert not is_talk(span)


def test_talk_is_what_has_no_tools() -> None:
    assert is_talk(conversation(user("hi"), says("ok"), user([text("see"), image()])).messages)
    assert is_talk([])


def test_results_in_a_user_s_message_are_not_the_user_s_words() -> None:
    part = {"type": "tool_result", "tool_use_id": "1", "content": "20C"}
    given = conversation(user([text("frage"), part]))

    task = summary_task(given, given.messages, "", 100, BUILT_IN)

    assert (task.dialogue, task.user_text) == ("frage", "frage")
    assert "20C" in task.span_text
