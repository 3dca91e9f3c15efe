"""An operator's own prompt: its sections are asked for and checked, and no others."""

from pathlib import Path

import pytest

from tests.journeys.summaries.troubles import Trouble, folded_text, history, outcome, troubled
from tests.support.fake_model import Line
from tests.support.summary_model import Question, Telling, answer, chosen
from tests.unit.chat.shapes import calls, result, says

pytestmark = pytest.mark.anyio

OWN = "Write the minutes.\n\n## Who\n## When\n## What was said"
PLAIN = "Summarise like a pirate."


def writing(head: str) -> Telling:
    """Write some lines of the conversation under this heading."""

    async def tell(question: Question, line: Line) -> None:
        lines = "\n".join(f"- {said}" for said in chosen(question))
        await answer(question, line, f"{head}\n{lines}")

    return tell


async def asked(trouble: Trouble) -> str:
    """Have a history summarised and return what the proxy says it did."""
    return outcome(await trouble.ask(history()))


def prompt_file(folder: Path, text: str) -> dict[str, str]:
    file = folder / "prompt.md"
    file.write_text(text)
    return {"prompt_file": str(file)}


async def test_its_own_sections_are_enough(tmp_path: Path) -> None:
    telling = writing("**Who:** Ann\n## What was said")
    async with troubled(telling, summary=prompt_file(tmp_path, OWN)) as trouble:
        assert await asked(trouble) == "built"

        (question,) = trouble.questions
        assert question.texts[-1] == OWN
        folded = folded_text(trouble.sent)
        assert "## Who\n- Ann\n## When\n- (none)\n## What was said\n- " in folded
        assert "## Goal" not in folded


async def test_a_repair_asks_for_its_own_sections(tmp_path: Path) -> None:
    telling = writing("## Goal")
    async with troubled(telling, summary=prompt_file(tmp_path, OWN)) as trouble:
        assert await asked(trouble) == "failed-open"

        assert [question.is_repair for question in trouble.questions] == [False, True]
        assert trouble.questions[1].texts[-1].endswith("\n## Who\n## When\n## What was said")


async def test_without_headings_any_form_is_accepted(tmp_path: Path) -> None:
    telling = writing("Arr, this was said:")
    async with troubled(telling, summary=prompt_file(tmp_path, PLAIN)) as trouble:
        assert await asked(trouble) == "built"

        assert len(trouble.questions) == 1
        assert "\nArr, this was said:\n- " in folded_text(trouble.sent)


async def test_talk_and_work_are_asked_for_in_different_words() -> None:
    async with troubled() as trouble:
        assert await asked(trouble) == "built"
        talk, *rest = history(name="b")
        await trouble.ask([talk, rest[0], calls("1"), result("1", "seen"), says("So."), *rest[2:]])

        about_talk, about_work = (question.texts[-1] for question in trouble.questions)
        assert "each event with its date" in about_talk
        assert "Copy paths, commands, identifiers" in about_work
