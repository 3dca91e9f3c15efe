"""C13: a summary model whose window is smaller than what it is to summarise."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.journeys.summaries.troubles import (
    UPDATE,
    folded_text,
    history,
    outcome,
    troubled,
)
from tests.support.fake_model import fake_model
from tests.support.live import eventually
from tests.support.summary_model import (
    Question,
    SummaryModel,
    chosen,
    failing,
    good,
    once_open,
)

pytestmark = pytest.mark.anyio


async def test_c13_what_a_small_summary_model_did_not_see_stays_in_the_prompt() -> None:
    """BUGS 48: the newest groups are left out of the question, and not claimed by the boundary."""
    given = history(22)
    small = SummaryModel(good, window=3_000, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        async with troubled(failing(500), summary=summary) as trouble:
            answered = await trouble.ask(given)

            assert outcome(answered) == "built"
            assert small.overflows == []
            told = "\n".join(text for question in small.summaries for text in question.texts)
            for message in given[1:]:
                assert message["content"] in told or message in trouble.sent
            assert all(q.tokens + q.max_tokens < 3_000 for q in small.summaries)


async def test_c13_parts_are_asked_at_once_and_the_fold_has_words_of_each() -> None:
    """BUGS 48: no part is dropped on the way, nor the summary before."""
    gate = asyncio.Event()
    small = SummaryModel(once_open(gate), window=3_000, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        async with troubled(failing(500), summary=summary) as trouble:
            asked = asyncio.create_task(trouble.ask(history(22)))
            await eventually(lambda: len(small.summaries) > 2)
            gate.set()
            await asked
            first = tuple(small.summaries)
            check_parts(first, folded_text(trouble.sent))
            answered = await trouble.ask(history(48))

            assert outcome(answered) == "built"
            later = small.summaries[len(first) :]
            assert later
            check_parts(later, folded_text(trouble.sent))
            lines = [line for question in first for line in chosen(question)[1:]]
            assert any(line in folded_text(trouble.sent) for line in lines)


def check_parts(questions: Sequence[Question], folded: str) -> None:
    """Check that parts are asked independently of each other and that each left words behind."""
    for question in questions:
        assert UPDATE not in question.texts[-1]
        assert any(line in folded for line in chosen(question)[1:])
