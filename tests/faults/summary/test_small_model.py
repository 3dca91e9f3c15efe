"""C13: a summary model whose window is smaller than what it is to summarise."""

import pytest

from tests.journeys.summaries.troubles import (
    UPDATE,
    history,
    outcome,
    troubled,
)
from tests.support.fake_model import fake_model
from tests.support.summary_model import (
    SummaryModel,
    failing,
    good,
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


async def test_c13_the_rest_is_folded_with_the_summary_before() -> None:
    """BUGS 48: no summary is dropped on the way; each question has the one before."""
    small = SummaryModel(good, window=3_000, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        async with troubled(failing(500), summary=summary) as trouble:
            await trouble.ask(history(22))

            first, *later = small.summaries
            assert later
            assert UPDATE not in first.texts[-1]
            for question in later:
                assert UPDATE in question.texts[-1]
                assert "<<<summary " in question.texts[-1]
