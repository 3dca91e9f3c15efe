"""Who failed to get a summary leaves the model alone for a while, longer each time."""

from collections.abc import Sequence

import pytest

from tests.journeys.summaries.tellings import repeating
from tests.journeys.summaries.troubles import Trouble, history, outcome, troubled
from tests.support.fake_model import fake_model
from tests.support.summary_model import SummaryModel, failing, good, in_turn
from tests.unit.chat.shapes import Fields

pytestmark = pytest.mark.anyio


async def tries_after(trouble: Trouble, seconds: float, given: Sequence[Fields]) -> int:
    """Return how often a summary is asked for when the history comes again after a while.

    Whether it is tried and fails or is not tried yet, the request that fits goes on as it came.
    """
    before = len(trouble.questions)
    trouble.now += seconds
    answered = await trouble.ask(given)
    tries = len(trouble.questions) - before
    assert trouble.is_unchanged
    assert outcome(answered) == "failed-open" or not tries
    assert outcome(answered) in ("failed-open", "none")
    return tries


async def test_a_conversation_is_left_alone_for_one_five_and_fifteen_minutes() -> None:
    given = history()
    async with troubled(failing(500)) as trouble:
        tries = [
            await tries_after(trouble, seconds, given)
            for seconds in (0, 59, 1, 299, 1, 899, 1, 899, 1)
        ]

    assert tries == [1, 0, 1, 0, 1, 0, 1, 0, 1]


async def test_a_conversation_that_grows_is_left_alone_all_the_same() -> None:
    async with troubled(failing(500)) as trouble:
        await trouble.ask(history(19))

        assert await tries_after(trouble, 59, history(21)) == 0
        assert await tries_after(trouble, 1, history(21)) == 1


async def test_a_success_begins_a_new_count() -> None:
    given, longer = history(20), history(40)
    telling = in_turn(failing(500), failing(500), good, failing(500))
    async with troubled(telling) as trouble:
        await tries_after(trouble, 0, given)
        await tries_after(trouble, 60, given)
        trouble.now += 300
        assert outcome(await trouble.ask(given)) == "built"

        await trouble.ask(longer)
        (*_, line) = trouble.heard.lines("no summary was written")

    assert line["next_try_seconds"] == 60


async def test_another_conversation_is_not_held_back_by_a_failure() -> None:
    """They have the same system prompt, which is all that many conversations of an agent share."""
    async with troubled(in_turn(failing(500), good)) as trouble:
        await trouble.ask(history(name="a"))

        answered = await trouble.ask(history(name="b"))

        assert outcome(answered) == "built"


async def test_another_tenant_is_not_held_back_by_a_failure() -> None:
    async with troubled(in_turn(failing(500), good)) as trouble:
        await trouble.ask(history(), "authorization: Bearer one")

        answered = await trouble.ask(history(), "authorization: Bearer two")

        assert outcome(answered) == "built"


async def test_a_model_that_asks_for_a_pause_gets_it_from_this_conversation() -> None:
    """FAULTS B16, C2."""
    given = history()
    async with troubled(failing(429, "retry-after: 45")) as trouble:
        await trouble.ask(given)

        assert await tries_after(trouble, 44, given) == 0


async def test_a_model_that_asks_for_a_pause_gets_it_from_every_conversation() -> None:
    """FAULTS B16: side-queries back off by Retry-After."""
    async with troubled(failing(429, "retry-after: 45")) as trouble:
        await trouble.ask(history(name="a"))

        assert await tries_after(trouble, 44, history(name="b")) == 0
        assert await tries_after(trouble, 1, history(name="c")) == 1


async def test_a_pause_of_years_is_not_believed() -> None:
    """FAULTS B16: capped at 60 s."""
    given = history()
    async with troubled(failing(429, "retry-after: 1000000000")) as trouble:
        await trouble.ask(given)

        assert await tries_after(trouble, 60, given) == 1


async def test_a_summary_that_won_nothing_is_tried_again_when_there_is_a_tenth_more() -> None:
    """FAULTS C6: time alone changes nothing about it."""
    async with troubled(repeating) as trouble:
        await trouble.ask(history(18))

        assert await tries_after(trouble, 1_000, history(18)) == 0
        assert await tries_after(trouble, 1_000, history(19)) == 0
        assert await tries_after(trouble, 1_000, history(21)) == 1
        assert await tries_after(trouble, 1_000, history(21)) == 0


async def failed_five_times(trouble: Trouble) -> None:
    for number in range(5):
        answered = await trouble.ask(history(name=f"early{number}-"))
        assert outcome(answered) in ("failed-open", "built")


async def test_after_five_failures_no_chat_of_the_tenant_asks_this_model() -> None:
    """FAULTS C2: the breaker is the tenant's for this model, whichever chat failed."""
    async with troubled(failing(500)) as trouble:
        await failed_five_times(trouble)

        tries = [await tries_after(trouble, 1, history(name=f"late{n}-")) for n in range(5)]

    assert len(trouble.questions) == 5
    assert tries == [0] * 5


async def test_after_a_pause_one_question_finds_the_model_well_again() -> None:
    async with troubled(in_turn(*[failing(500)] * 5, good)) as trouble:
        await failed_five_times(trouble)
        trouble.now += 31

        answered = await trouble.ask(history(name="late"))
        then = await trouble.ask(history(name="later"))

        assert outcome(answered) == "built"
        assert outcome(then) == "built"


async def test_what_the_model_understood_and_refused_does_not_open_its_breaker() -> None:
    async with troubled(failing(400)) as trouble:
        await failed_five_times(trouble)

        assert await tries_after(trouble, 1, history(name="late")) > 0


async def test_a_summary_model_that_is_left_alone_is_replaced_by_the_own_model() -> None:
    """DESIGN: summary model, then the request's own model."""
    small = SummaryModel(failing(500), names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        async with troubled(good, summary=summary) as trouble:
            await failed_five_times(trouble)
            assert len(small.summaries) == 5

            answered = await trouble.ask(history(name="late"))

            assert len(small.summaries) == 5
            assert outcome(answered) == "built"
            assert trouble.questions[-1].fields["model"] == "fake"
