"""A summary is written before it is needed, so that at the trigger nobody waits for it."""

import asyncio
import time
from typing import Any

import pytest

from tests.journeys.summaries.talking import (
    SYSTEM,
    WINDOW,
    Talk,
    label,
    long_chat,
    talking,
    turns,
)
from tests.journeys.trimming.growing import Asked
from tests.support.clock import Stopwatch
from tests.support.live import eventually
from tests.support.summary_model import SummaryModel, after, once_open
from tests.unit.chat.shapes import Fields, user

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

PREPARED: dict[str, Any] = {"prepare": 0.65}
CHATS = 8
FOLDING_SECONDS = 0.05
OFF = "x-chat-proxy-mode: off"


def early(number: int = 0) -> list[Fields]:
    """Return a conversation between the preparation and the trigger."""
    return [SYSTEM, user(f"I am number {number}"), *long_chat(11)[2:]]


def late(number: int = 0) -> list[Fields]:
    """Return the same conversation two turns later, over the trigger."""
    return [*early(number), *turns(2, first=20)[1:], user("And then?")]


async def settled(talk: Talk, summaries: int, seconds: float = 15) -> None:
    """Wait until so many summaries were asked for and all of them are kept."""
    running = talk.proxy.services.compaction.summaries.jobs._running
    await eventually(lambda: len(talk.brain.summaries) >= summaries and not running, seconds)


async def test_the_request_goes_on_unchanged_while_its_summary_is_prepared() -> None:
    """Preparing costs the request nothing, and changes not one byte of it."""
    gate = asyncio.Event()
    brain = SummaryModel(once_open(gate), window=WINDOW)
    async with talking(brain, budget=PREPARED) as talk:
        asked = await talk.ask(early())
        await eventually(lambda: len(brain.summaries) == 1)
        gate.set()

    assert label(asked) == "none"
    assert asked.upstream == asked.body


async def test_a_prepared_summary_is_taken_at_the_trigger_and_not_before() -> None:
    """BUGS 21: the prefix breaks once, when it must."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, budget=PREPARED) as talk:
        first = await talk.ask(early())
        await settled(talk, 1)
        again = await talk.ask(early())
        crossing = await talk.ask(late())
        later = await talk.ask([*late(), *turns(1, 60, first=30)[1:], user("Go on")])

    assert [label(it) for it in (first, again, crossing, later)] == [
        "none",
        "none",
        "reused",
        "reused",
    ]
    assert again.upstream == again.body
    assert crossing.tokens[1] < crossing.tokens[0] * 0.7
    assert crossing.begins(later)
    assert len(brain.summaries) == 1


async def test_a_summary_is_prepared_once_however_often_the_client_comes() -> None:
    """BUGS 43: neither while it is written nor afterwards is it written again."""
    gate = asyncio.Event()
    brain = SummaryModel(once_open(gate), window=WINDOW)
    async with talking(brain, budget=PREPARED) as talk:
        for _ in range(3):
            await talk.ask(early())
        await eventually(lambda: len(brain.summaries) == 1)
        gate.set()
        await settled(talk, 1)
        for _ in range(3):
            await talk.ask(early())
        await settled(talk, 1)

    assert len(brain.summaries) == 1


async def test_nothing_is_prepared_where_that_is_turned_off() -> None:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, budget={"prepare": 1}) as talk:
        await talk.ask(early())
        await asyncio.sleep(0.2)

    assert brain.summaries == []


async def test_a_request_that_is_only_observed_prepares_nothing() -> None:
    """BUGS 41: a look changes nothing and asks nobody."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, "x-chat-proxy-mode: observe", budget=PREPARED) as talk:
        first = await talk.ask(early())
        second = await talk.ask(late())
        await asyncio.sleep(0.2)

    assert brain.summaries == []
    assert first.upstream == first.body
    assert second.upstream == second.body


async def computing(talk: Talk, messages: list[Fields], *headers: str) -> tuple[Asked, float]:
    """Return what became of a request, and the CPU seconds of proxy, model and client for it."""
    began = time.process_time()
    asked = await talk.ask(messages, *headers)
    return asked, time.process_time() - began


@pytest.mark.usefixtures("_untraced")
async def test_the_request_that_crosses_the_trigger_waits_for_nothing() -> None:
    """No summary can end while it is answered; its fold costs little CPU time."""
    gate = asyncio.Event()
    gate.set()
    brain = SummaryModel(once_open(gate), window=WINDOW)
    sections: dict[str, Any] = {"budget": PREPARED, "summary": {"concurrency": CHATS}}
    crossing, passing = [], []
    async with talking(brain, **sections) as talk:
        for number in range(CHATS):
            await talk.ask(early(number))
        await settled(talk, CHATS)
        gate.clear()
        for number in range(CHATS):
            asked, seconds = await computing(talk, late(number))
            assert label(asked) == "reused"
            crossing.append(seconds)
            passing.append((await computing(talk, late(number), OFF))[1])
        gate.set()

    assert len(brain.summaries) == CHATS
    assert min(crossing) - min(passing) <= FOLDING_SECONDS


async def test_without_preparation_the_request_waits_for_its_summary() -> None:
    """The control, where requests wait at the trigger: this is what preparing saves."""
    brain = SummaryModel(after(0.5), window=WINDOW)
    async with talking(brain) as talk:
        watch = Stopwatch()
        await talk.ask(late())

        assert watch.wall() >= 0.5
