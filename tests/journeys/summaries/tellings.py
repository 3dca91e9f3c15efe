"""Summary models that do something wrong, each in a way of its own."""

from typing import Any

from tests.support.fake_model import Line, answer_json, begin_stream, event
from tests.support.summary_model import Question, Telling, answer, chosen, written

NOBODY = "http://127.0.0.1:9/v1"


def telling(content: str | None, **more: Any) -> Telling:
    """A model that always answers so."""

    async def tell(question: Question, line: Line) -> None:
        await answer(question, line, content, **more)

    return tell


def adding(text: str) -> Telling:
    """A model that writes a good summary, and this beside it."""

    async def tell(question: Question, line: Line) -> None:
        await answer(question, line, written([*chosen(question), text]))

    return tell


async def partial(question: Question, line: Line) -> None:
    """Forget two sections."""
    await answer(question, line, written(chosen(question), ("Goal", "Relevant Files")))


async def repeating(question: Question, line: Line) -> None:
    """Write down every word instead of a summary."""
    await answer(question, line, written(question.texts[:-1]))


async def poor(question: Question, line: Line) -> None:
    """Write down how the conversation began, and lose the rest."""
    await answer(question, line, written(question.material[:8]))


async def sketchy(question: Question, line: Line) -> None:
    """Forget a few sections."""
    await answer(question, line, written(chosen(question), ("Goal", "Next Steps")))


async def breaking_off(question: Question, line: Line) -> None:
    """Begin a summary and break the connection."""
    await begin_stream(line)
    choice = {"index": 0, "delta": {"content": "## Goal\n- to"}, "finish_reason": None}
    await line.chunk(event({"choices": [choice]}))
    line.reset()


async def erring(_: Question, line: Line) -> None:
    """Answer 200 with an error in it."""
    await answer_json(line, {"error": {"message": "out of memory", "code": 500}})
