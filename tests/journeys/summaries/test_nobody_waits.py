"""By default nobody waits while the prompt fits: a summary is written beside the conversation."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.journeys.summaries.talking import (
    LIMIT,
    TRIGGER,
    WINDOW,
    Talk,
    body_of,
    label,
    long_chat,
    talking,
    turns,
)
from tests.support.clock import own_time
from tests.support.live import chat_request, eventually, settings
from tests.support.summary_model import SummaryModel, Telling, failing, once_open
from tests.unit.chat.shapes import Fields, says, user

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

LARGEST = 14
"""The turns of a conversation over the trigger that still fits."""
TOO_LARGE = 17


@asynccontextmanager
async def as_shipped(telling: Telling | None = None) -> AsyncIterator[Talk]:
    """Talk to a proxy that waits as the default settings say; nothing is prepared."""
    wait = settings().summary.wait
    assert wait == "overflow"
    async with talking(SummaryModel(telling, window=WINDOW), summary={"wait": wait}) as talk:
        yield talk


def grown(more: int) -> list[Fields]:
    """Return a conversation over the trigger, so many small turns later."""
    later = [(says(f"Answer {number}."), user(f"And then, {number}?")) for number in range(more)]
    return [*long_chat(LARGEST), *(message for turn in later for message in turn)]


async def settled(talk: Talk, summaries: int = 1) -> None:
    """Wait until so many summaries were asked for and all of them are kept."""
    running = talk.proxy.services.compaction.summaries.jobs._running
    await eventually(lambda: len(talk.brain.summaries) >= summaries and not running)


async def held_back(condition: Callable[[], bool], seconds: float = 0.4) -> bool:
    """Tell whether something does not happen for a while."""
    for _ in range(int(seconds / 0.02)):
        await asyncio.sleep(0.02)
        if condition():
            return False
    return True


async def test_at_the_trigger_the_answer_comes_while_the_summary_model_hangs() -> None:
    gate = asyncio.Event()
    async with as_shipped(once_open(gate)) as talk:
        started = own_time()
        asked = await talk.ask(grown(0))
        seconds = own_time() - started
        await eventually(lambda: len(talk.brain.summaries) == 1)
        gate.set()

    assert seconds < 1
    assert TRIGGER < asked.tokens[0] < LIMIT
    assert (label(asked), asked.upstream) == ("none", asked.body)


async def test_the_next_request_uses_the_summary_that_is_ready() -> None:
    async with as_shipped() as talk:
        first = await talk.ask(grown(0))
        await settled(talk)
        second, third = await talk.ask(grown(1)), await talk.ask(grown(2))

    assert (label(first), first.upstream) == ("none", first.body)
    assert [label(it) for it in (second, third)] == ["reused", "reused"]
    assert second.stages == ["summary"]
    assert second.tokens[1] <= TRIGGER / 2
    assert second.begins(third)
    assert len(talk.brain.summaries) == 1


async def test_while_it_is_written_the_prefix_grows_and_nobody_asks_for_it_twice() -> None:
    gate = asyncio.Event()
    async with as_shipped(once_open(gate)) as talk:
        sent = [await talk.ask(grown(more)) for more in range(4)]
        gate.set()
        await settled(talk)
        after = await talk.ask(grown(4))

    assert [it.upstream == it.body for it in sent] == [True] * 4
    assert label(after) == "reused"
    assert len(talk.brain.summaries) == 1


async def test_a_request_that_would_not_fit_waits_for_its_summary() -> None:
    """Nothing is sent that its model must refuse."""
    gate = asyncio.Event()
    async with as_shipped(once_open(gate)) as talk:
        await talk.line.send(chat_request(body_of(long_chat(TOO_LARGE))))
        await eventually(lambda: bool(talk.brain.summaries))
        waited = await held_back(lambda: bool(talk.brain.chats))
        gate.set()
        answered = await talk.line.answer()

    assert waited
    assert (answered.status, label(answered)) == (200, "built")
    assert talk.brain.overflows == []


async def test_a_conversation_that_outgrows_its_window_waits_for_the_summary_under_way() -> None:
    """The one that was begun at the trigger is enough, and is not asked for again."""
    gate = asyncio.Event()
    async with as_shipped(once_open(gate)) as talk:
        await talk.ask(grown(0))
        await eventually(lambda: len(talk.brain.summaries) == 1)
        larger = [*long_chat(LARGEST), *turns(4, first=50)[1:], user("And then?")]
        await talk.line.send(chat_request(body_of(larger)))
        waited = await held_back(lambda: len(talk.brain.chats) > 1)
        gate.set()
        answered = await talk.line.answer()

    assert waited
    assert (answered.status, label(answered)) == (200, "built")
    assert int(answered.headers["x-chat-proxy-tokens-before"]) > LIMIT
    assert len(talk.brain.summaries) == 1
    assert talk.brain.overflows == []


async def test_a_summary_that_fails_beside_the_conversation_is_no_failure_of_a_request() -> None:
    async with as_shipped(failing(500)) as talk:
        first = await talk.ask(grown(0))
        await settled(talk)
        second = await talk.ask(grown(1))

    for asked in (first, second):
        assert (label(asked), asked.upstream) == ("none", asked.body)
    assert len(talk.brain.summaries) == 1


async def test_without_any_summary_what_does_not_fit_is_folded_with_notes() -> None:
    """The last request is over the window and its model writes nothing: it is answered."""
    async with as_shipped(failing(500)) as talk:
        await talk.ask(grown(0))
        await settled(talk)
        asked = await talk.ask(long_chat(TOO_LARGE))

    assert label(asked) == "failed-open"
    assert asked.stages == ["summary"]
    assert asked.tokens[1] <= LIMIT
    assert talk.brain.overflows == []


async def test_waiting_at_the_trigger_can_be_had() -> None:
    """SUMMARY_WAIT=trigger: the request that crosses it is already folded."""
    async with talking(SummaryModel(window=WINDOW), summary={"wait": "trigger"}) as talk:
        asked = await talk.ask(grown(0))

    assert label(asked) == "built"
    assert asked.tokens[1] <= TRIGGER / 2


@pytest.mark.parametrize(("wait", "waits"), [("overflow", True), ("trigger", False)])
async def test_explain_says_that_a_request_which_fits_is_sent_as_it_is(
    wait: str, *, waits: bool
) -> None:
    """The plan of a request over the trigger is shown, and that nothing is done about it yet."""
    async with talking(SummaryModel(window=WINDOW), summary={"wait": wait}) as talk:
        request = chat_request(body_of(long_chat(LARGEST)))
        await talk.line.send(request.replace(b"/chat/completions", b"/chat/explain", 1))
        told = json.loads((await talk.line.answer()).body)

    assert told["budget"]["is_over_trigger"]
    assert told["compaction"]["plan"]["is_waiting"] is waits
