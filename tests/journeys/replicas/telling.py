"""Summaries by which one sees who wrote them."""

import asyncio
from itertools import count

from tests.support.fake_model import Line
from tests.support.summary_model import Question, Telling, answer, chosen, written


def numbered(seconds: float = 0) -> Telling:
    """Write no two summaries alike, each in so many seconds."""
    numbers = count()

    async def tell(question: Question, line: Line) -> None:
        text = written([f"This is number {next(numbers)}", *chosen(question)])
        await asyncio.sleep(seconds)
        await answer(question, line, text)

    return tell
