import pytest

from bench.conversation.loss.__main__ import options_of
from bench.conversation.loss.facts import COUNTS, facts
from bench.conversation.loss.models import GOOD, FactSummariser
from bench.conversation.loss.replay import Case, Outcome, replay
from bench.conversation.loss.report import cell, page
from bench.conversation.senders import Dropping, Summarising

pytestmark = pytest.mark.anyio
CASE = Case(facts(1), window=16_384, result_chars=1_000, folds=(1, 2))
OPTIONS = options_of(CASE.window)


async def test_an_agent_with_summaries_of_its_own_is_asked_for_every_fact_at_each_age() -> None:
    outcome = await _own_summaries()

    assert {folds: asked.total() for folds, asked in outcome.asked.items()} == {1: 200, 2: 200}
    assert 170 < outcome.kept[1].total() < 200
    assert outcome.kept[2].total() < outcome.kept[1].total()
    assert outcome.unseen == 0
    assert outcome.side_queries > 2


async def test_dropping_is_asked_at_the_moments_of_another_and_forgets() -> None:
    moments = (await _own_summaries()).moments

    outcome = await replay("drop oldest", CASE, Dropping(CASE.window, OPTIONS), set(), moments)

    assert outcome.requests == max(moments)
    assert outcome.asked[2].total() == 200
    assert outcome.kept[2].total() < 100
    assert outcome.unseen == 1


async def test_the_tables_have_every_kind_and_every_system() -> None:
    outcome = await _own_summaries()
    other = Outcome("never folded", 16_384, 1_000)

    written = page([outcome, other], CASE.folds)

    assert all(f"| {kind} | {number} |" in written for kind, number in COUNTS.items())
    total = f"{outcome.kept[1].total()} / {outcome.kept[2].total()}"
    assert f"| **all** | 200 | {total} | - / - |" in written
    assert f"| billed | {outcome.billed:,.0f} | 0 |" in written


def test_a_cell_says_of_how_many_if_not_all_were_asked_for() -> None:
    outcome = Outcome("x", 1, 1)
    fact, other = facts(1)[:2]
    outcome.ask({fact: 3, other: 3}, {fact})

    assert cell(outcome, 3, [fact.kind]) == "1 of 2"
    assert cell(outcome, 10, [fact.kind]) == "-"


async def _own_summaries() -> Outcome:
    summariser = FactSummariser(CASE.facts, GOOD)
    return await replay(
        "own summary", CASE, Summarising(CASE.window, summariser, OPTIONS), summariser.shown
    )
