"""C7-C9: answers with calls of tools, with thoughts, or without their sections."""

import json

import pytest

from tests.journeys.summaries.tellings import sketchy, telling
from tests.journeys.summaries.troubles import (
    folded_text,
    history,
    is_passed_by,
    outcome,
    troubled,
)
from tests.support.fake_model import Line
from tests.support.summary_model import (
    Question,
    Telling,
    answer,
    calling,
    chosen,
    only_thinking,
    repaired,
    unrepaired,
    written,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "telling",
    [calling, telling('<tool_call>{"name": "rm", "arguments": {"path": "/"}}</tool_call>')],
    ids=["called", "written"],
)
async def test_c7_a_call_of_a_tool_is_ignored(telling: Telling) -> None:
    """BUGS 25: no tool protocol becomes the summary; nothing of it reaches anyone."""
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures("tool_calls") == 1
        assert b"tool_call" not in answered.body


@pytest.mark.parametrize(
    "telling",
    [only_thinking, telling("<think>What was said?\n## Goal\n- to win")],
    ids=["beside", "inside"],
)
async def test_c8_thoughts_alone_are_no_summary(telling: Telling) -> None:
    """BUGS 25."""
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures("only_reasoning") + trouble.failures("empty") == 1


@pytest.mark.parametrize("head", ["<think>Hm, platypus.</think>\n", "Hm, platypus.\n</think>\n\n"])
async def test_c8_thoughts_before_a_summary_are_left_out(head: str) -> None:
    """BUGS 25."""

    async def thinking(question: Question, line: Line) -> None:
        thoughts = "I think of a platypus."
        summary = head + written(chosen(question))
        await answer(question, line, summary, reasoning_content=thoughts)

    async with troubled(thinking) as trouble:
        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        assert "platypus" not in json.dumps(trouble.sent)
        assert "think>" not in json.dumps(trouble.sent)


async def test_c9_a_few_missing_sections_are_filled_in() -> None:
    async with troubled(sketchy) as trouble:
        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        assert [question.is_repair for question in trouble.questions] == [False]
        assert "## Goal\n- (none)\n## Constraints" in folded_text(trouble.sent)
        assert "## Next Steps\n- (none)\n## Critical Context\n- " in folded_text(trouble.sent)


async def test_c9_most_sections_missing_are_asked_for_once() -> None:
    async with troubled(repaired) as trouble:
        answered = await trouble.ask(history(18))

        assert outcome(answered) == "built"
        assert [question.is_repair for question in trouble.questions] == [False, True]
        assert "## Next Steps" in folded_text(trouble.sent)


@pytest.mark.parametrize(
    "telling",
    [
        unrepaired,
        telling("Sure! Here is the next step of the work: I would first look at the notes."),
        telling("Error: the model is overloaded, please try again later."),
    ],
    ids=["sections missing", "goes on with the conversation", "an error in words"],
)
async def test_c9_what_stays_without_sections_is_refused(telling: Telling) -> None:
    """BUGS 26, 28: neither an error's text nor the conversation's next words are a summary."""
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history(18))

        assert is_passed_by(trouble, answered)
        assert [question.is_repair for question in trouble.questions] == [False, True]
        assert trouble.failures("sections") == 1
