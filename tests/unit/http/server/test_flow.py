"""Flow control: an app waits for a client that takes nothing, and for no other."""

import asyncio

import pytest

from chat_proxy.http.server.flow import Flow
from chat_proxy.http.write_batch import WriteBatch

pytestmark = pytest.mark.anyio


@pytest.fixture
async def paused() -> Flow:
    flow = Flow(asyncio.Transport(), asyncio.get_running_loop(), WriteBatch())
    flow.pause_writing()
    return flow


async def give_up_waiting(flow: Flow) -> None:
    waiting = asyncio.create_task(flow.drain())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_who_waits_for_a_paused_client_goes_on_with_it(paused: Flow) -> None:
    waiting = asyncio.create_task(paused.drain())
    await asyncio.sleep(0)
    assert not waiting.done()

    paused.resume_writing()

    await asyncio.wait_for(waiting, 60)


async def test_who_gives_up_waiting_does_not_wake_or_stop_the_next(paused: Flow) -> None:
    await give_up_waiting(paused)

    second = asyncio.create_task(paused.drain())
    await asyncio.sleep(0)
    assert not second.done()
    paused.resume_writing()

    await asyncio.wait_for(second, 60)


async def test_a_client_that_gave_up_waiting_may_be_resumed(paused: Flow) -> None:
    await give_up_waiting(paused)

    paused.resume_writing()

    assert not paused.write_paused


async def test_nobody_waits_for_a_client_that_takes_what_it_is_sent(paused: Flow) -> None:
    paused.resume_writing()

    await asyncio.wait_for(paused.drain(), 60)
    await asyncio.wait_for(paused.sent, 60)
