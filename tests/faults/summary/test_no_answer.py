"""C1, C2: a summary model that is late, refuses, breaks off or is not there."""

import pytest

from chat_proxy.compaction.summary.fold import ACKNOWLEDGEMENT
from tests.journeys.summaries.tellings import NOBODY, breaking_off, erring
from tests.journeys.summaries.troubles import (
    FRAME,
    RULES,
    SECRET_WORD,
    chatter,
    folded_text,
    history,
    is_passed_by,
    outcome,
    troubled,
)
from tests.support.clock import Stopwatch, own_time
from tests.support.summary_model import (
    Telling,
    after,
    failing,
    garbage,
    good,
    in_turn,
)
from tests.unit.chat.shapes import says, user

pytestmark = pytest.mark.anyio


async def test_c1_a_summary_that_takes_too_long_is_not_waited_for() -> None:
    async with troubled(after(20), summary={"timeout_seconds": 0.5}) as trouble:
        watch = Stopwatch()
        answered = await trouble.ask(history())
        at_least, at_most = watch.wall(), watch.own()
        again = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert at_least >= 0.5
        assert at_most < 4
        assert trouble.failures("timeout") == 1
        assert (outcome(again), trouble.is_unchanged, trouble.kept) == ("none", True, [])
        assert len(trouble.questions) == 1
        (line,) = trouble.heard.lines("no summary was written")
        assert (line["reason"], line["next_try_seconds"]) == ("timeout", 60)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
async def test_c2_an_error_instead_of_a_summary_costs_no_time(status: int) -> None:
    async with troubled(failing(status, "retry-after: 7")) as trouble:
        started = own_time()
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert own_time() - started < 3
        assert trouble.failures("unavailable") == 1
        assert len(trouble.questions) == 1


async def test_c2_a_refused_connection_is_followed_by_a_question_to_the_own_model() -> None:
    async with troubled(good, summary={"base_url": NOBODY, "model": "small"}) as trouble:
        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        assert [question.fields["model"] for question in trouble.questions] == ["fake"]


async def test_c2_when_nobody_can_write_a_summary_the_request_goes_on() -> None:
    other = {"base_url": NOBODY, "model": "small"}
    async with troubled(failing(503), summary=other) as trouble:
        started = own_time()
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert own_time() - started < 3


@pytest.mark.parametrize("telling", [garbage, breaking_off, erring])
async def test_c2_an_answer_that_cannot_be_read_is_no_summary(telling: Telling) -> None:
    """BUGS 26: the error's text does not become the summary."""
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures("unavailable") == 1


async def test_c2_a_request_that_is_refused_is_asked_in_another_form() -> None:
    async with troubled(in_turn(failing(400), good)) as trouble:
        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        ride, transcript = trouble.questions
        assert ride.messages[0] == RULES
        assert transcript.messages[0] != RULES


async def test_c2_a_failed_summary_drops_nothing_and_the_next_one_succeeds() -> None:
    """BUGS 26."""
    async with troubled(in_turn(failing(500), good)) as trouble:
        await trouble.ask(history())
        assert trouble.is_unchanged
        trouble.now += 60

        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        assert folded_text(trouble.sent).count(FRAME) == 1
        assert says(ACKNOWLEDGEMENT) in trouble.sent


@pytest.mark.parametrize("stream", [False, True])
async def test_c2_a_stream_is_answered_as_any_other_request(stream: bool) -> None:
    async with troubled(failing(503)) as trouble:
        answered = await trouble.ask(history(), stream=stream)

        assert is_passed_by(trouble, answered)
        assert b"Well." in answered.body


async def test_c2_the_log_says_why_and_nothing_else() -> None:
    async with troubled(failing(503)) as trouble:
        await trouble.ask([*history(), user(chatter(20))], "authorization: Bearer hidden-key")

        (line,) = trouble.heard.lines("no summary was written")
        assert line["reason"] == "unavailable"
        assert SECRET_WORD not in trouble.heard.text
        assert "hidden-key" not in trouble.heard.text


async def test_c2_after_five_failures_the_model_is_not_even_asked() -> None:
    async with troubled(failing(503)) as trouble:
        for number in range(5):
            await trouble.ask(history(18, f"early{number}-"))
        answered = await trouble.ask(history(18, "late"))

        assert is_passed_by(trouble, answered)
        assert len(trouble.questions) == 5


async def test_c2_a_pause_that_the_model_asks_for_is_given_by_every_conversation() -> None:
    async with troubled(failing(429, "retry-after: 45")) as trouble:
        await trouble.ask(history(name="a"))
        trouble.now += 44
        await trouble.ask(history(name="b"))
        too_early = len(trouble.questions)
        trouble.now += 1
        await trouble.ask(history(name="c"))

        assert (too_early, len(trouble.questions)) == (1, 2)


async def test_c1_each_failure_makes_the_pause_longer() -> None:
    async with troubled(failing(500)) as trouble:
        for pause in (0, 60, 300):
            trouble.now += pause
            await trouble.ask(history())

        lines = trouble.heard.lines("no summary was written")
        assert [line["next_try_seconds"] for line in lines] == [60, 300, 900]
        assert len(trouble.questions) == 3
