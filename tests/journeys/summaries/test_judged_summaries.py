"""Which answers are a summary: the prompt says what one must have, the span what it may say."""

from pathlib import Path
from typing import Any

import pytest

from tests.journeys.summaries.tellings import partial, telling
from tests.journeys.summaries.troubles import (
    folded_text,
    history,
    is_passed_by,
    outcome,
    troubled,
)
from tests.support.fake_model import Line
from tests.support.summary_model import Question, Telling, answer, chosen, good, written
from tests.unit.chat.shapes import says, user

pytestmark = pytest.mark.anyio

HEADINGS = ["Situation", "Facts", "Open questions", "Plan"]
PROMPT = """\
Do not answer or continue the conversation. Write a report of it.

# Situation
# Facts (with numbers)
# Open questions
# Plan
"""
TOO_LITTLE = "Some work was done."
GERMAN_GOAL = "Die Nutzerin will einen Kuchen mit Kirschen für das Sommerfest in Wuppertal backen."
CHINESE = written(["用户想要做一个蛋糕并且询问了关于夏季派对的许多细节和注意事项。" * 4])


def prompt_file(folder: Path, text: str = PROMPT) -> dict[str, Any]:
    """Write an operator's own prompt; return the settings section that names it."""
    file = folder / "prompt.txt"
    file.write_text(text)
    return {"prompt_file": str(file)}


def reporting(*headings: str) -> Telling:
    """Write a report with such headings; the facts stand under the second."""

    async def tell(question: Question, line: Line) -> None:
        facts = "\n".join(f"- {fact}" for fact in chosen(question))
        text = "\n".join(f"# {it}\n{facts if it == 'Facts' else '- (none)'}" for it in headings)
        await answer(question, line, text)

    return tell


async def test_a_prompt_file_with_other_headings_is_answered_with_those(tmp_path: Path) -> None:
    async with troubled(reporting(*HEADINGS), summary=prompt_file(tmp_path)) as trouble:
        answered = await trouble.ask(history(18))

        assert outcome(answered) == "built"
        (question,) = trouble.questions
        text = folded_text(trouble.sent)
        assert PROMPT.strip() in question.texts[-1]
        assert [text.count(f"# {heading}\n") for heading in HEADINGS] == [1] * 4
        assert f"- {chosen(question)[-1]}" in text
        assert "## Goal" not in text


async def test_a_heading_of_the_file_that_is_left_out_is_filled(tmp_path: Path) -> None:
    async with troubled(reporting(*HEADINGS[:3]), summary=prompt_file(tmp_path)) as trouble:
        answered = await trouble.ask(history(18))

        assert outcome(answered) == "built"
        assert len(trouble.questions) == 1
        assert "# Plan\n- (none)" in folded_text(trouble.sent)


async def test_where_most_headings_are_missing_the_file_says_which(tmp_path: Path) -> None:
    async with troubled(reporting("Facts"), summary=prompt_file(tmp_path)) as trouble:
        answered = await trouble.ask(history(18))

        assert is_passed_by(trouble, answered)
        first, second = trouble.questions
        assert not first.is_repair
        assert second.is_repair
        assert "lacks these sections: Situation; Open questions; Plan." in second.texts[-1]
        assert trouble.failures("sections") == 1


async def test_a_prompt_file_without_headings_has_no_rule_about_them(tmp_path: Path) -> None:
    async def tell(question: Question, line: Line) -> None:
        await answer(question, line, "They spoke of this: " + ". ".join(chosen(question)))

    summary = prompt_file(tmp_path, "Tell in one paragraph what was said.")
    async with troubled(tell, summary=summary) as trouble:
        answered = await trouble.ask(history(18))

        assert outcome(answered) == "built"
        assert len(trouble.questions) == 1
        assert "They spoke of this: " in folded_text(trouble.sent)


async def test_a_summary_without_two_of_its_sections_is_taken_at_once() -> None:
    async with troubled(partial) as trouble:
        answered = await trouble.ask(history(18))

        assert outcome(answered) == "built"
        assert len(trouble.questions) == 1
        text = folded_text(trouble.sent)
        assert "## Goal\n- (none)\n" in text
        assert "## Relevant Files\n- (none)" in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TOO_LITTLE, "sections"),
        (written([TOO_LITTLE]), "too_short"),
        (CHINESE, "language"),
        (written([f"{GERMAN_GOAL} Sie wohnt in der Luisenstraße {n}." for n in range(4)]), ""),
        (written([f"Visit Professor Brown at 12 Baker Street on May {n}." for n in range(9)]), ""),
    ],
    ids=["no section", "too little", "another script", "another tale", "invented names"],
)
async def test_what_cannot_be_a_summary_of_this_conversation_is_refused(
    text: str, reason: str
) -> None:
    """The original goes on, and nothing of the answer is kept."""
    async with troubled(telling(text)) as trouble:
        answered = await trouble.ask(history(18))

        assert is_passed_by(trouble, answered)
        assert trouble.failures(reason or "ungrounded") == 1


async def test_the_goal_stays_until_a_new_one_has_a_reason() -> None:
    """An invented goal in another language does not take the place of the user's."""
    goal = "Keep all notes of zebrafinch in order."

    async def inventing(question: Question, line: Line) -> None:
        summary = written(question.material[-12:])
        await answer(question, line, summary.replace("- (none)", f"- {GERMAN_GOAL}", 1))

    async def stating(question: Question, line: Line) -> None:
        await answer(question, line, written(chosen(question)).replace("- (none)", f"- {goal}", 1))

    async with troubled(stating) as trouble:
        first = history(18)
        await trouble.ask(first)
        assert f"## Goal\n- {goal}\n" in folded_text(trouble.sent)
        trouble.brain.telling = inventing
        answered = await trouble.ask([*first, says("So."), *history(16, "b")[1:]])

        assert outcome(answered) == "built"
        assert f"## Goal\n- {goal}\n" in folded_text(trouble.sent)
        assert "Kirschen" not in folded_text(trouble.sent)


async def test_a_new_goal_of_the_user_takes_the_place_of_the_old_one() -> None:
    wish = "Paint the northern lighthouse in red and white."

    async def obliging(question: Question, line: Line) -> None:
        summary = written(chosen(question))
        await answer(question, line, summary.replace("- (none)", f"- {wish}", 1))

    async with troubled(good) as trouble:
        first = history(18)
        await trouble.ask(first)
        trouble.brain.telling = obliging
        await trouble.ask([*first, says("So."), user(wish), says("Yes."), *history(16, "b")[1:]])

        assert f"## Goal\n- {wish}\n" in folded_text(trouble.sent)
