"""C10-C12: one summary for all who need it, whoever asks, leaves, or runs beside."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.journeys.replicas.fleet import fleet_of, store_in
from tests.journeys.replicas.telling import numbered
from tests.journeys.summaries.talking import WINDOW, body_of, label, long_chat, post, talking
from tests.support.live import chat_request, eventually, raw_client
from tests.support.redis_server import RedisServer, running_redis
from tests.support.summary_model import SummaryModel, once_open

pytestmark = pytest.mark.anyio

CROWD = 50
WAITS = "chat_proxy_summaries_waits_total"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis for several proxies."""
    with running_redis(tmp_path) as server:
        yield server


async def test_c10_fifty_requests_at_once_ask_for_one_summary() -> None:
    """BUGS 43."""
    gate = asyncio.Event()
    brain = SummaryModel(once_open(gate), window=WINDOW)
    async with talking(brain) as talk, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw_client(talk.proxy)) for _ in range(CROWD)]
        body = body_of(long_chat())
        asked = [asyncio.create_task(post(client, body)) for client in clients]
        metrics = talk.proxy.services.metrics
        await eventually(lambda: f"{WAITS} {CROWD}.0" in metrics.render().decode())
        gate.set()
        answers = await asyncio.gather(*asked)

    assert [it.status for it in answers] == [200] * CROWD
    assert {label(it) for it in answers} <= {"built", "reused"}
    assert len(brain.summaries) == 1
    assert len({chat.received.body for chat in brain.chats}) == 1


async def test_c11_who_asked_first_may_leave_and_the_others_get_the_summary() -> None:
    """BUGS 43."""
    gate = asyncio.Event()
    brain = SummaryModel(once_open(gate), window=WINDOW)
    async with talking(brain) as talk, raw_client(talk.proxy) as leader:
        await leader.send(chat_request(body_of(long_chat())))
        await eventually(lambda: len(brain.summaries) == 1)
        follower = asyncio.create_task(talk.ask(long_chat()))
        metrics = talk.proxy.services.metrics
        await eventually(lambda: f"{WAITS} 2.0" in metrics.render().decode())
        leader.leave()
        await eventually(lambda: 'client_abort_total{phase="ttfb"} 1' in metrics.render().decode())
        gate.set()
        followed = await follower
        later = await talk.ask(long_chat())

    assert label(followed) in ("built", "reused")
    assert label(later) == "reused"
    assert later.upstream == followed.upstream
    assert (len(brain.summaries), len(brain.chats)) == (1, 2)


async def test_c11_a_summary_that_everybody_left_is_kept() -> None:
    gate = asyncio.Event()
    brain = SummaryModel(once_open(gate), window=WINDOW)
    async with talking(brain) as talk, raw_client(talk.proxy) as leader:
        await leader.send(chat_request(body_of(long_chat())))
        await eventually(lambda: len(brain.summaries) == 1)
        leader.leave()
        metrics = talk.proxy.services.metrics
        await eventually(lambda: 'client_abort_total{phase="ttfb"} 1' in metrics.render().decode())
        gate.set()
        await eventually(lambda: not talk.proxy.services.compaction.summaries.jobs._running)
        asked = await talk.ask(long_chat())

    assert label(asked) == "reused"
    assert len(brain.summaries) == 1


async def test_c12_of_two_replicas_one_writes_and_both_send_the_same(server: RedisServer) -> None:
    """BUGS 44."""
    brain = SummaryModel(numbered(0.2), window=WINDOW)
    async with fleet_of(2, brain, store_in(server)) as fleet:
        body = body_of(long_chat())
        answers = await asyncio.gather(*(post(talk.line, body) for talk in fleet.talks))

    assert [it.status for it in answers] == [200, 200]
    assert {label(it) for it in answers} <= {"built", "reused"}
    assert len(brain.summaries) == 1
    assert len({chat.received.body for chat in brain.chats}) == 1


async def test_c12_who_waits_for_another_replica_in_vain_goes_on(server: RedisServer) -> None:
    gate = asyncio.Event()
    brain = SummaryModel(once_open(gate), window=WINDOW)
    summary = {"timeout_seconds": 1}
    async with fleet_of(2, brain, store_in(server), summary=summary) as fleet:
        body = body_of(long_chat())
        answers = await asyncio.gather(*(post(talk.line, body) for talk in fleet.talks))
        gate.set()

    assert [label(it) for it in answers] == ["failed-open", "failed-open"]
    assert {chat.received.body for chat in brain.chats} == {body}
    assert len(brain.summaries) == 1
