"""Clients that leave: nothing is left behind, and everybody else is served (A18, A19, BUGS 49)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from chat_proxy.errors import Overloaded
from chat_proxy.proxy.lifecycle.admission import Admission
from tests.support.fake_model import (
    Line,
    Received,
    begin_stream,
    delta,
    fake_model,
    on_chat,
    polite,
    story,
)
from tests.support.live import (
    RawClient,
    chat_body,
    chat_request,
    eventually,
    raw_client,
    running_proxy,
)
from tests.support.meeting import Meeting, meeting

pytestmark = pytest.mark.anyio


async def silent(_: Received, line: Line) -> None:
    await line.until_closed()


async def endless(_: Received, line: Line) -> None:
    await begin_stream(line)
    while True:
        await line.chunk(delta("word "))
        await asyncio.sleep(0.05)


async def half_an_answer(_: Received, line: Line) -> None:
    await line.head(200, "content-type: application/json", "content-length: 100")
    await line.send(b'{"id":')
    await line.until_closed()


BEHAVIOURS = [silent, endless, half_an_answer]


@asynccontextmanager
async def crowd(they: Meeting, size: int) -> AsyncIterator[list[RawClient]]:
    async with AsyncExitStack() as stack:
        entering = (stack.enter_async_context(raw_client(they.proxy)) for _ in range(size))
        yield [await client for client in entering]


def chatting(they: Meeting) -> int:
    """Upstream connections that belong to chats still running."""
    pool = they.proxy.services.forwarding.upstream._pool
    assert pool is not None
    return len(pool._open) - pool.idle.count


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
async def test_three_hundred_leave_and_fifty_are_served(behaviour: object) -> None:
    """BUGS 49."""
    short = {"keep_alive_seconds": 0.2}
    async with meeting(behaviour, upstream=short) as they:  # type: ignore[arg-type]
        async with crowd(they, 300) as clients:
            for client in clients:
                await client.send(chat_request(chat_body(stream=True)))
            await eventually(lambda: they.chats == 300)
            for client in clients:
                client.leave()
            await eventually(lambda: chatting(they) == 0, 1)
        they.model.behaviour = on_chat(polite)
        async with crowd(they, 50) as clients:
            for client in clients:
                await client.send(chat_request(chat_body(stream=True)))
            answers = [await client.answer() for client in clients]
        await eventually(lambda: they.model.open_connections == 0, 1)

        assert {answer.status for answer in answers} == {200}
        assert {answer.body for answer in answers} == {b"".join(story())}
        assert they.proxy.services.admission.held_bytes == 0


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
async def test_the_upstream_is_let_go_of_within_a_quarter_second(behaviour: object) -> None:
    """A18, A19."""
    async with meeting(behaviour) as they:  # type: ignore[arg-type]
        await they.client.send(chat_request(chat_body(stream=True)))
        await eventually(lambda: they.chats == 1)
        await eventually(lambda: not they.proxy.services.windows._tasks)
        before = they.model.open_connections
        await asyncio.sleep(0.05)
        they.client.leave()

        assert await eventually(lambda: they.model.open_connections == before - 1) < 0.25


async def hurried(_: Received, line: Line) -> None:
    """Answer in many small steps, so that there are many moments to leave at."""
    await begin_stream(line)
    for piece in story():
        await asyncio.sleep(0.001)
        await line.chunk(piece)
    await line.chunk(b"")


class Steps:
    """Leaves after so many turns of the event loop."""

    def __init__(self, client: RawClient) -> None:
        self._client = client

    async def leave_after(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        self._client.leave()


@pytest.mark.parametrize("behaviour", [hurried, polite])
@pytest.mark.parametrize("streams", [True, False])
async def test_a_client_may_leave_at_any_moment(behaviour: object, streams: bool) -> None:
    """A17 to A19: no connection, task or byte stays behind."""
    request = chat_request(chat_body(stream=streams))
    async with (
        fake_model(on_chat(behaviour)) as model,  # type: ignore[arg-type]
        running_proxy(model.url, upstream={"keep_alive_seconds": 0.05}) as proxy,
    ):
        async with raw_client(proxy) as client:
            await client.send(request)
            await client.answer()
        services = proxy.services
        await eventually(lambda: not services.windows._tasks and model.open_connections == 0)
        tasks = len(asyncio.all_tasks())
        for turns in range(80):
            async with raw_client(proxy) as client:
                client.writer.write(request[: -turns or None] if turns % 10 == 9 else request)
                await Steps(client).leave_after(turns)
        for milliseconds in range(15):
            async with raw_client(proxy) as client:
                await client.send(request)
                await asyncio.sleep(milliseconds / 1000)
                client.leave()
        await eventually(lambda: services.admission.held_bytes == 0)
        await eventually(lambda: not services.drain._running)
        await eventually(lambda: model.open_connections == 0)
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
        async with raw_client(proxy) as client:
            await client.send(request)
            assert (await client.answer()).status == 200


async def test_one_that_leaves_takes_nobody_along() -> None:
    async with meeting(endless) as they, raw_client(they.proxy) as other:
        for client in (they.client, other):
            await client.send(chat_request(chat_body(stream=True)))
            await client.reader.readuntil(b"word ")
        they.client.leave()

        for _ in range(3):
            await other.reader.readuntil(b"word ")


async def test_leaving_while_a_connection_is_made_leaves_none_behind() -> None:
    """A18: the connection may come to be after its client is gone."""
    async with fake_model(on_chat(silent)) as model, running_proxy(model.url) as proxy:
        for turns in range(30):
            async with raw_client(proxy) as client:
                await client.send(chat_request())
                await Steps(client).leave_after(turns)
        await eventually(lambda: not proxy.services.drain._running)
        await eventually(lambda: not proxy.services.windows._tasks)

        await eventually(lambda: model.open_connections <= 1)


def test_the_whole_budget_comes_back() -> None:
    admission = Admission(100)
    large = admission.hold("a", 0, 500)  # a lone request is never refused for its size
    with pytest.raises(Overloaded):
        admission.hold("a", 0, 1)
    admission.hold("a", large, 0)
    first = admission.hold("a", 0, 60)
    second = admission.hold("a", 0, 20)
    with pytest.raises(Overloaded) as refusal:
        admission.hold("a", 0, 1)
    admission.hold("a", second, 0)
    admission.hold("a", first, 0)

    assert refusal.value.retry_after == 1
    assert admission.held_bytes == 0
