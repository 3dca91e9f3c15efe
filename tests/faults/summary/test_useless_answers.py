"""C3-C6: answers that are empty, refusals, without an end, or no shorter than what they replace."""

import pytest

from tests.journeys.summaries.tellings import repeating, telling
from tests.journeys.summaries.troubles import (
    history,
    is_passed_by,
    outcome,
    troubled,
)
from tests.support.summary_model import (
    Telling,
    empty,
    endless,
    good,
    in_turn,
    only_thinking,
    refusing,
    written,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "telling",
    [empty, telling(" \n\t "), telling(None), telling(written(["(none)"]))],
    ids=["empty", "blank", "null", "only headings"],
)
async def test_c3_nothing_is_asked_again_about_less_and_then_not_again(telling: Telling) -> None:
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures("empty") == 1
        sizes = [question.tokens for question in trouble.questions]
        assert len(sizes) == 3
        assert sizes == sorted(set(sizes), reverse=True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("some work was done", "too_short"),
        (
            "这次谈话的内容是关于很多笔记和一只鸟的事情,用户问了很多问题,助手都一一回答了。" * 2,
            "language",
        ),
    ],
)
async def test_c3_next_to_nothing_and_another_script_are_refused(words: str, reason: str) -> None:
    """BUGS 29: neither says what the conversation said."""
    async with troubled(telling(written([words]))) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures(reason) == 1


@pytest.mark.parametrize("telling", [empty, endless, only_thinking])
async def test_c3_a_summary_of_less_stands_for_less(telling: Telling) -> None:
    """BUGS 48: what no answered question had is still in the prompt."""
    given = history()
    async with troubled(in_turn(telling, good)) as trouble:
        answered = await trouble.ask(given)

        assert outcome(answered) == "built"
        asked = [message for question in trouble.questions[1:] for message in question.messages]
        for message in given:
            assert message in asked or message in trouble.sent


@pytest.mark.parametrize(
    "telling",
    [
        refusing,
        telling("I'm sorry, but I cannot summarise this conversation."),
        telling("## Goal\n- to", finish_reason="content_filter"),
        telling(None, refusal="I will not."),
    ],
    ids=["both", "in words", "filtered", "by the field"],
)
async def test_c4_a_refusal_never_becomes_history(telling: Telling) -> None:
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert len(trouble.questions) == 1
        assert trouble.failures("refusal") + trouble.failures("content_filter") == 1


async def test_c5_a_summary_without_an_end_is_asked_for_three_times_at_most() -> None:
    async with troubled(endless) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        sizes = [question.tokens for question in trouble.questions]
        assert len(sizes) == 3
        assert sizes == sorted(set(sizes), reverse=True)
        assert trouble.failures("length") == 1


async def test_c6_a_summary_that_wins_nothing_is_refused_and_not_wanted_again() -> None:
    async with troubled(repeating) as trouble:
        answered = await trouble.ask(history())
        trouble.now += 10_000
        again = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert (outcome(again), trouble.is_unchanged, trouble.kept) == ("none", True, [])
        assert len(trouble.questions) == 1
        assert trouble.failures("no_gain") == 1
