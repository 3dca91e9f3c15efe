"""What a tool showed and the assistant told is kept, though its result was cut long ago."""

import pytest

from tests.journeys.summaries.talking import SYSTEM, WINDOW, label, prose, talking, turns
from tests.journeys.trimming.growing import step
from tests.support.fake_model import Line
from tests.support.summary_model import Question, SummaryModel, answer, chosen, written
from tests.unit.chat.shapes import user

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

FINDING = "f-ledger-page-49196"


async def poor(question: Question, line: Line) -> None:
    """Write a summary of what was said, and leave out what was found."""
    await answer(question, line, written([it for it in chosen(question) if FINDING not in it]))


async def test_a_finding_outlives_the_middle_of_its_result() -> None:
    """The facts are looked for in what the client sent, not in what is left of it."""
    shown = f"{prose(1_200, 'the log')}\nstate {FINDING} seen\n{prose(1_200, 'the log')}"
    told, *results = step("2", "edited")
    told["content"] = f"The cause is {FINDING}."
    found = [*step("1", shown), told, *results]
    brain = SummaryModel(poor, window=WINDOW)
    asked = [SYSTEM, user("Find it."), *found, *turns(9)[1:]]
    async with talking(brain) as talk:
        first = await talk.ask([*asked, user("What was it?")])
        second = await talk.ask([*asked, *turns(12, first=20), user("What was it?")])

    assert [label(first), label(second)] == ["built", "built"]
    for it in (first, second):
        assert FINDING in it.messages[1]["content"]
        assert FINDING not in str(it.messages[2:])
