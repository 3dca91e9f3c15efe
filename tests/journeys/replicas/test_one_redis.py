"""Issue 7, point 1: three proxies on one Redis are as good as one, whoever gets the request."""

import asyncio

import pytest

from chat_proxy.proxy.summaries import jobs as summaries
from tests.journeys.replicas.fleet import Fleet, fleet_of, store_in
from tests.journeys.summaries.talking import SYSTEM, WINDOW, body_of, label, long_chat, post, turns
from tests.journeys.trimming.growing import listening, output, step
from tests.support.live import RawAnswer, chat_request, eventually
from tests.support.redis_server import RedisServer
from tests.support.summary_model import SummaryModel, after, in_turn, once_open
from tests.unit.chat.shapes import Fields, user

pytestmark = pytest.mark.anyio

PROXIES = 3
HEX_DIGITS_OF_AN_ADDRESS = 64
RUN_WINDOW = 64_000
RUN_TRIGGER = 44_800


async def grow(fleet: Fleet, chat_log: int) -> None:
    """Ask, take in the answer and ask again, so many times."""
    messages = [SYSTEM]
    for number in range(chat_log):
        question, answer = turns(1, (180, 600, 900, 300, 1_200)[number % 5], first=number)
        await fleet.ask([*messages, question])
        messages += [question, answer]


async def run_tools(fleet: Fleet, steps: int, every: int = 5) -> None:
    """Send an agent's run as it grows, every so many steps."""
    messages: list[Fields] = [SYSTEM, user("Find out why the tests fail, and fix it.")]
    for number in range(1, steps + 1):
        messages += step(str(number), output(300 + 50 * (number % 9), number))
        if number % every == 0:
            await fleet.ask(messages)


async def asked_at_once(fleet: Fleet, messages: list[Fields]) -> list[RawAnswer]:
    """Send a history to all proxies at the same time."""
    body = body_of(messages)
    return await asyncio.gather(*(post(talk.line, body) for talk in fleet.talks))


async def test_a_growing_conversation_is_compacted_once_for_all_proxies(
    server: RedisServer,
) -> None:
    """BUGS 9, 44: each boundary costs one summary and breaks the prefix once."""
    brain = SummaryModel(window=WINDOW)
    with listening() as log:
        async with fleet_of(PROXIES, brain, store_in(server)) as fleet:
            await grow(fleet, 36)
            compactions = await log.compactions(len(fleet.asked))

    built = [it.headers["x-request-id"] for it in fleet.asked if label(it) == "built"]
    assert len(built) >= 5
    assert len(brain.summaries) == len(built)
    assert fleet.broken() == built
    assert compactions == built


async def test_all_proxies_send_the_same_bytes_at_every_size(server: RedisServer) -> None:
    """BUGS 44: nothing in a prompt tells which proxy has sent it."""
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(PROXIES, brain, store_in(server)) as fleet:
        for count in range(4, 24, 2):
            asked = await fleet.ask_all(long_chat(count))
            assert len({it.upstream for it in asked}) == 1

    assert 2 <= len(brain.summaries) <= 5


async def test_what_one_proxy_aged_the_others_age_too(server: RedisServer) -> None:
    """BUGS 44: also where no summary is written, and however fast the requests come."""
    brain = SummaryModel(window=RUN_WINDOW)
    without = {"enabled": False}
    with listening() as log:
        async with fleet_of(PROXIES, brain, store_in(server), RUN_WINDOW, summary=without) as fleet:
            await run_tools(fleet, 150)
            compactions = await log.compactions(len(fleet.asked))

    assert 2 <= len(compactions) <= fleet.asked[-1].tokens[0] / (RUN_TRIGGER / 3) + 1
    assert fleet.broken() == compactions


async def test_proxies_that_are_asked_at_once_write_one_summary(server: RedisServer) -> None:
    """BUGS 43: those who come second wait for the one who holds the lease."""
    brain = SummaryModel(after(0.3), window=WINDOW)
    async with fleet_of(PROXIES, brain, store_in(server)) as fleet:
        answers = await asked_at_once(fleet, long_chat())

    assert [it.status for it in answers] == [200] * PROXIES
    assert {label(it) for it in answers} <= {"built", "reused"}
    assert len(brain.summaries) == 1
    assert len({chat.received.body for chat in brain.chats}) == 1


async def test_proxies_that_prepare_at_once_write_one_summary(server: RedisServer) -> None:
    """BUGS 43: the same behind the scenes, and nobody waits."""
    brain = SummaryModel(after(0.3), window=WINDOW)
    async with fleet_of(PROXIES, brain, store_in(server), budget={"prepare": 0.65}) as fleet:
        early = await asked_at_once(fleet, long_chat(11))
        flights = [talk.proxy.services.compaction.summaries.jobs for talk in fleet.talks]
        await eventually(lambda: brain.summaries and not any(it._running for it in flights))
        longer = [*long_chat(11), *turns(3, first=20)[1:], user("And then?")]
        late = await fleet.ask_all(longer)

    assert {label(it) for it in early} == {"none"}
    assert {label(it) for it in late} == {"reused"}
    assert len(brain.summaries) == 1
    assert len({it.upstream for it in late}) == 1


async def test_tenants_with_the_same_words_do_not_wait_for_each_other(server: RedisServer) -> None:
    """A lease is a tenant's own, as is what it leads to; its name tells nothing of the words."""
    gate = asyncio.Event()
    brain = SummaryModel(in_turn(once_open(gate), after(0)), window=WINDOW)
    body = body_of(long_chat())
    async with fleet_of(2, brain, store_in(server)) as fleet:
        one, other = fleet.talks
        await one.line.send(chat_request(body, "authorization: Bearer one"))
        await eventually(lambda: len(brain.summaries) == 1)
        (lease,) = server.ask("KEYS", "*:lease:*")
        async with asyncio.timeout(60):
            theirs = await post(other.line, body, "authorization: Bearer other")
        gate.set()
        first = await one.line.answer()

    assert len(lease.rpartition(b":")[2]) == HEX_DIGITS_OF_AN_ADDRESS
    assert (label(first), label(theirs)) == ("built", "built")
    assert len(brain.summaries) == 2


async def test_a_proxy_that_stops_in_time_hands_its_lease_on(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stops gives back what it holds: nobody waits for the lease to end."""
    monkeypatch.setattr(summaries, "LEASE_SECONDS", 60.0)
    gate = asyncio.Event()
    brain = SummaryModel(in_turn(once_open(gate), after(0)), window=WINDOW)
    async with fleet_of(2, brain, store_in(server)) as fleet:
        holder, other = fleet.talks
        await holder.line.send(chat_request(body_of(long_chat())))
        await eventually(lambda: len(brain.summaries) == 1)
        holder.line.leave()
        waiting = asyncio.create_task(other.ask(long_chat()))
        await asyncio.sleep(0.1)
        await holder.proxy.services.compaction.summaries.jobs.close()
        async with asyncio.timeout(60):
            asked = await waiting
        gate.set()

    assert label(asked) == "built"
    assert len(brain.summaries) == 2
