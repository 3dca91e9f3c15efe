"""A summary that wins little waits: the turn that stands in its way is soon over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.journeys.summaries.talking import SYSTEM, WINDOW, Talk, label, prose, talking, turns
from tests.journeys.trimming.growing import step
from tests.support.live import eventually
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, says, user

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

USABLE = 6_000
TRIGGER = 4_800


def working(old: int, steps: int) -> list[Fields]:
    """Return two turns of so many tokens, and one of so many steps of about 250."""
    made = [step(str(number), prose(160, f"file {number}")) for number in range(steps)]
    asked = [SYSTEM, *turns(2, old), user("Now fix it.")]
    return [*asked, *(message for one in made for message in one)]


WITHIN = working(old=800, steps=14)
"""Over the trigger."""
CLOSE = working(old=900, steps=16)
"""Closer to the end of what is usable than to the trigger."""
BEYOND = [*CLOSE, *step("last", prose(280, "the last file"))]
DONE = [says("It is fixed."), user("Thank you. And now?")]


@asynccontextmanager
async def warm(brain: SummaryModel, **sections: Any) -> AsyncIterator[Talk]:
    """Talk to a proxy that has learnt already how the model counts."""
    async with talking(brain, **sections) as talk:
        await talk.ask(WITHIN, "x-chat-proxy-mode: observe")
        yield talk


async def settled(talk: Talk, summaries: int) -> None:
    """Wait until so many summaries were asked for and all of them are kept."""
    running = talk.proxy.services.compaction.summaries.jobs._running
    await eventually(lambda: len(talk.brain.summaries) == summaries and not running)


async def test_the_request_goes_on_until_the_turn_is_over() -> None:
    """One summary of all steps in the place of two, and the prefix breaks once."""
    brain = SummaryModel(window=WINDOW)
    async with warm(brain) as talk:
        within = await talk.ask(WITHIN)
        over = await talk.ask([*WITHIN, *DONE])

    assert TRIGGER < within.tokens[0] < over.tokens[0] < USABLE
    assert (label(within), within.upstream) == ("none", within.body)
    assert label(over) == "built"
    assert over.tokens[1] < TRIGGER / 2
    assert len(brain.summaries) == 1


async def test_the_answer_never_loses_its_room_for_that() -> None:
    """What is over the usable part of the window is folded, however little that wins."""
    brain = SummaryModel(window=WINDOW)
    async with warm(brain) as talk:
        asked = await talk.ask(BEYOND)

    assert asked.tokens[0] > USABLE
    assert label(asked) == "built"


async def test_close_to_the_end_it_is_written_while_the_request_goes_on() -> None:
    """Nobody waits for it then, and nobody asks for it twice."""
    brain = SummaryModel(window=WINDOW)
    async with warm(brain) as talk:
        close = await talk.ask(CLOSE)
        await settled(talk, 1)
        again = await talk.ask(CLOSE)
        beyond = await talk.ask(BEYOND)

    assert [label(it) for it in (close, again, beyond)] == ["none", "none", "reused"]
    assert again.upstream == again.body
    assert len(brain.summaries) == 1


async def test_a_better_one_takes_its_place_when_the_turn_is_over() -> None:
    brain = SummaryModel(window=WINDOW)
    async with warm(brain) as talk:
        await talk.ask(CLOSE)
        await settled(talk, 1)
        over = await talk.ask([*CLOSE, *DONE])
        await settled(talk, 2)
        later = await talk.ask([*CLOSE, *DONE, says("Nothing."), user("Really?")])

    assert [label(it) for it in (over, later)] == ["none", "reused"]
    assert later.tokens[1] < TRIGGER / 2


async def test_a_look_says_the_same() -> None:
    brain = SummaryModel(window=WINDOW)
    async with warm(brain) as talk:
        within = await talk.ask(WITHIN, "x-chat-proxy-mode: observe")
        beyond = await talk.ask(BEYOND, "x-chat-proxy-mode: observe")

    assert (label(within), label(beyond)) == ("none", "built")
    assert brain.summaries == []


async def test_nothing_is_prepared_that_would_win_little() -> None:
    """Ahead of the trigger it waits for the turn's end, and is prepared with the next one."""
    brain = SummaryModel(window=WINDOW)
    before = working(old=800, steps=12)
    async with warm(brain, budget={"prepare": 0.65}) as talk:
        first = await talk.ask(before)
        await asyncio.sleep(0.2)
        asked_before = len(brain.summaries)
        second = await talk.ask([*before, *DONE])
        await settled(talk, 1)

    assert asked_before == 0
    assert USABLE * 0.65 < first.tokens[0] < second.tokens[0] < TRIGGER
    assert [label(it) for it in (first, second)] == ["none", "none"]


async def test_what_is_prepared_is_prepared_again_when_the_next_turn_makes_it_much_better() -> None:
    """The steps that the first one had to spare are in the second, and that is taken."""
    brain = SummaryModel(window=WINDOW)
    before = working(old=1_000, steps=9)
    async with warm(brain, budget={"prepare": 0.65}) as talk:
        first = await talk.ask(before)
        await settled(talk, 1)
        second = await talk.ask([*before, *DONE])
        await settled(talk, 2)
        again = await talk.ask([*before, *DONE])
        crossing = await talk.ask([*before, *DONE, *turns(1, 500, first=30)[1:], user("Go on.")])

    assert [label(it) for it in (first, second, again, crossing)] == [*["none"] * 3, "reused"]
    assert crossing.tokens[1] < TRIGGER / 2
    assert len(brain.summaries) == 2
