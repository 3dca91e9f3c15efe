"""A changed conversation is written as messages that the Messages API accepts."""

from typing import Any

import pytest

from chat_proxy.wires.messages.wire import MESSAGES
from tests.support.wires.messages_rules import messages_violations
from tests.support.wires.talks import Step, messages_body
from tests.unit.wires.test_messages_read import (
    IMAGE,
    REDACTED,
    REMINDER,
    THINKING,
    says,
    text,
    tool_result,
    tool_use,
    user,
)
from tests.unit.wires.writing import Fields, folded, only, rewritten, with_arguments, with_contents

NOTE = text("[image]")
MARK = {"type": "ephemeral"}


def written_of(given: list[Fields], contents: dict[int, Any]) -> list[Fields]:
    body = {"messages": given}
    written: list[Fields] = rewritten(MESSAGES, body, with_contents(contents))["messages"]
    return written


def test_a_fold_is_a_message_of_the_user_and_an_answer() -> None:
    asks = user(text("Hi"))
    body = {"system": "Be kind.", "messages": [asks, says(text("Well.")), asks]}

    written = rewritten(MESSAGES, body, folded(1, 3))

    assert written["system"] == "Be kind."
    assert written["messages"] == [
        {"role": "user", "content": "So far."},
        {"role": "assistant", "content": "Yes."},
        asks,
    ]


def test_thoughts_are_never_altered_when_a_call_gets_shorter() -> None:
    given = says(THINKING, REDACTED, text("Well."), tool_use("a", path="long"))

    (written,) = rewritten(MESSAGES, {"messages": [given]}, with_arguments(0, '{"path": "l"}'))[
        "messages"
    ]

    assert written == says(THINKING, REDACTED, text("Well."), tool_use("a", path="l"))


def test_arguments_that_are_no_object_any_more_stay_as_they_were() -> None:
    given = says(tool_use("a", path="long"))

    written = rewritten(MESSAGES, {"messages": [given]}, with_arguments(0, '{"path": "l'))

    assert written["messages"] == [given]


def test_numbers_of_unchanged_arguments_keep_every_digit() -> None:
    given = says(text("Well."), tool_use("a", long=2**70))

    assert written_of([given], {0: "We…"}) == [says(text("We…"), tool_use("a", long=2**70))]


def test_words_of_the_model_keep_their_cache_mark() -> None:
    given = says(text("Well.", cache_control=MARK))

    assert written_of([given], {0: "We…"}) == [says(text("We…", cache_control=MARK))]


def test_one_of_several_results_changes_alone() -> None:
    given = user(tool_result("a"), tool_result("b", cache_control=MARK), text("Mind it."))

    (written,) = written_of([given], {1: "d…"})

    assert written == user(
        tool_result("a"), tool_result("b", "d…", cache_control=MARK), text("Mind it.")
    )


def test_media_in_a_result_leave_a_note() -> None:
    given = user(tool_result("a", [text("See"), IMAGE]))

    assert written_of([given], {0: [text("See"), NOTE]}) == [
        user(tool_result("a", [text("See"), NOTE]))
    ]


def test_an_error_stays_an_error() -> None:
    given = user(tool_result("a", "long", is_error=True))

    assert written_of([given], {0: "l"}) == [user(tool_result("a", "l", is_error=True))]


def test_a_result_is_shortened_without_its_reminders() -> None:
    given = user(tool_result("a", "long"), REMINDER)

    assert written_of([given], {0: [text("l…"), REMINDER]}) == [
        user(tool_result("a", [text("l…")]), REMINDER)
    ]


def test_a_result_that_became_a_line_loses_its_reminders() -> None:
    given = user(tool_result("a", "long"), REMINDER)

    assert written_of([given], {0: [text("[a line]")]}) == [
        user(tool_result("a", [text("[a line]")]))
    ]


def test_no_text_block_is_empty() -> None:
    given = user(text("Hi"), IMAGE)

    assert written_of([given], {0: ["", text(""), text("Hi")]}) == [user(text("Hi"))]


def test_what_is_kept_of_a_message_is_written_without_the_rest() -> None:
    given = [user(text("Hi")), says(tool_use("a")), user(tool_result("a"), text("Mind it."))]

    written = rewritten(MESSAGES, {"messages": given}, only(0, 3))

    assert written["messages"] == [user(text("Hi")), user(text("Mind it."))]


@pytest.mark.parametrize(
    ("most", "budget", "thinking"),
    [
        (4_000, 2_000, {"type": "enabled", "budget_tokens": 2_000}),
        (4_000, 4_000, {"type": "enabled", "budget_tokens": 2_000}),
        (1_500, 30_000, {"type": "enabled", "budget_tokens": 1_024}),
        (1_024, 30_000, {"type": "disabled"}),
        (300, 30_000, {"type": "disabled"}),
    ],
)
def test_the_budget_for_thinking_stays_below_a_clipped_answer(
    most: int, budget: int, thinking: Fields
) -> None:
    body = messages_body([Step()], max_tokens=32_000)
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}

    written = rewritten(MESSAGES, body, lambda it: it, {"max_tokens": most})

    assert (written["max_tokens"], written["thinking"]) == (most, thinking)
    assert messages_violations(written) == []


def test_thinking_without_a_budget_is_left_to_the_model() -> None:
    body = messages_body([Step()], max_tokens=32_000, thinking={"type": "adaptive"})

    written = rewritten(MESSAGES, body, lambda it: it, {"max_tokens": 500})

    assert written == {**body, "max_tokens": 500}


def test_thinking_that_was_removed_leaves_the_other_blocks_as_they_were() -> None:
    given = says(THINKING, REDACTED, text("Well.", cache_control=MARK), tool_use("a", path="p"))

    assert written_of([given], {0: [text("Well.", cache_control=MARK)]}) == [
        says(text("Well.", cache_control=MARK), tool_use("a", path="p"))
    ]


def test_a_call_without_the_thinking_before_it_is_a_message_still() -> None:
    given = says(THINKING, tool_use("a", path="p"))

    assert written_of([given], {0: None}) == [says(tool_use("a", path="p"))]
