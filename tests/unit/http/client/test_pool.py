"""Rows B5 and B6: kept-alive connections, and what may be sent twice."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from chat_proxy.upstream.client import Call, Reply, Upstream, UpstreamPolicy
from tests.support.clock import within
from tests.support.fake_model import (
    COMPLETION,
    FakeModel,
    Line,
    Received,
    fake_model,
    on_chat,
    polite,
)
from tests.support.live import chat_request, eventually, raw_client
from tests.support.meeting import Meeting, cut, meeting

pytestmark = pytest.mark.anyio

RETRIES = 'chat_proxy_retry_total{reason="reused_conn"}'


class TurnsAgainstOldFriends:
    """Answers politely until told to turn; then it drops every connection it has used before."""

    def __init__(self, says: bytes = b"") -> None:
        self.has_turned = False
        self._says = says
        self._writers: set[object] = set()

    async def __call__(self, received: Received, line: Line) -> None:
        if self.has_turned and line.writer in self._writers:
            if self._says:
                await line.send(self._says)
                await asyncio.sleep(0.01)
            cut(line)
            return
        self._writers.add(line.writer)
        await polite(received, line)


async def warm_up(they: Meeting, connections: int) -> None:
    """Leave so many connections idle in the pool."""
    gate = asyncio.Event()
    behaviour = they.model.behaviour

    async def together(received: Received, line: Line) -> None:
        await gate.wait()
        await behaviour(received, line)

    they.model.behaviour = together
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(raw_client(they.proxy)) for _ in range(connections)
        ]
        for client in clients:
            await client.send(chat_request())
        await eventually(lambda: they.chats == connections)
        gate.set()
        for client in clients:
            assert (await client.answer()).status == 200
    they.model.behaviour = behaviour
    await eventually(lambda: not they.proxy.services.windows._tasks)
    they.model.requests.clear()


@pytest.mark.parametrize("stale", [1, 5])
async def test_a_reused_connection_that_was_closed_is_replaced_once(stale: int) -> None:
    """B5: the second try takes none of the pool's, however many are stale."""
    model = TurnsAgainstOldFriends()
    async with meeting(polite) as they:
        they.model.behaviour = model
        await warm_up(they, stale)
        model.has_turned = True
        answer = await they.ask()

        assert answer.status == 200
        assert they.chats == 2
        assert they.figure(RETRIES) == 1


@pytest.mark.parametrize("says", [b"H", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n"])
async def test_nothing_is_sent_twice_once_a_byte_was_heard(says: bytes) -> None:
    """B6."""
    model = TurnsAgainstOldFriends(says)
    async with meeting(polite) as they:
        they.model.behaviour = model
        await warm_up(they, 1)
        model.has_turned = True
        answer = await they.ask()

        assert answer.error["code"] == "upstream_reset"
        assert they.chats == 1
        assert they.figure(RETRIES) == 0


async def test_the_second_try_is_the_last() -> None:
    """B5."""

    async def die(_: Received, line: Line) -> None:
        cut(line)

    async with meeting(polite) as they:
        await warm_up(they, 3)
        they.model.behaviour = on_chat(die)
        answer = await they.ask()

        assert answer.error["code"] == "upstream_reset"
        assert they.chats == 2


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with meeting(polite) as they:
        for _ in range(10):
            await they.ask()

    assert they.model.connections <= 2  # one of them asked for the models


@pytest.mark.parametrize("spoken", [1, 20, -1])
async def test_what_stands_behind_an_answer_is_nobody_else_s_answer(spoken: int) -> None:
    """F5: not even when only its beginning came with the answer, and the rest behind a question."""
    own, others = (
        answer_of(json.dumps({**COMPLETION, "id": name}).encode()) for name in ("own", "other's")
    )
    first: list[object] = []

    async def talkative(_: Received, line: Line) -> None:
        if not first:
            first.append(line.writer)
            await line.send(own + others[:spoken])
        else:
            await line.send(others[spoken:] if line.writer is first[0] else own)

    async with meeting(on_chat(talkative)) as they:
        answers = [await they.ask() for _ in range(2)]

    assert [json.loads(answer.body)["id"] for answer in answers] == ["own", "own"]


def answer_of(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


async def test_an_idle_connection_is_not_kept_for_long() -> None:
    """Shorter than vLLM's five seconds, so that it is we who close."""
    async with meeting(polite, upstream={"keep_alive_seconds": 0.1}) as they:
        await they.ask()
        await asyncio.sleep(0.2)
        before = they.model.connections
        await they.ask()

        assert they.model.connections == before + 1
        assert they.figure(RETRIES) == 0


async def test_a_client_may_send_while_its_connection_is_made() -> None:
    """Nothing is dialled before it is needed, and all of it in the caller's loop."""
    upstream = Upstream(UpstreamPolicy(None, 1, 1, 0, 1))

    with pytest.raises(RuntimeError, match="open"):
        await upstream.send(Call("GET", "http://127.0.0.1:1/v1", "/models", []))

    await upstream.close()


async def test_queries_and_many_paths_reach_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat_proxy.upstream.client.REMEMBERED_TARGETS", 2)
    upstream = Upstream(UpstreamPolicy(None, 1, 1, 0, 1))
    async with fake_model(polite) as model:
        upstream.open()
        for number in range(4):
            call = Call("GET", model.url, f"/models/{number}", [], query=b"a=1&b=%20")
            reply = await upstream.send(call)
            while await reply.read_some():
                pass
            reply.release()
        await upstream.close()

    assert targets(model) == [f"/v1/models/{number}?a=1&b=%20" for number in range(4)]
    assert len(upstream._targets) == 2


def targets(model: FakeModel) -> list[str]:
    return [request.target for request in model.requests]


def sockets_to(port: int) -> int:
    """Count the connections to a port that this process holds."""
    return [peer_port(link) for link in Path("/proc/self/fd").iterdir()].count(port)


def peer_port(link: Path) -> int:
    """Return the port at the other end of a descriptor, 0 if it has none."""
    with suppress(OSError):
        if str(link.readlink()).startswith("socket:"):
            with socket.socket(fileno=os.dup(int(link.name))) as same:
                peer = same.getpeername()
                return int(peer[1]) if isinstance(peer, tuple) else 0
    return 0


async def test_an_upstream_that_reads_nothing_is_let_go_of_at_once() -> None:
    """A18: what is unsent must not keep the connection."""
    upstream = Upstream(UpstreamPolicy(None, 1, 1, 0, 1))
    upstream.open()
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        call = Call("POST", f"http://127.0.0.1:{port}/v1", "/x", [], b"x" * 20_000_000)
        sending = asyncio.create_task(upstream.send(call))
        await eventually(lambda: sockets_to(port) == 1)
        await asyncio.sleep(0.05)
        sending.cancel()

        assert await eventually(lambda: sockets_to(port) == 0) < 0.25
    await upstream.close()


async def test_a_connection_with_an_unsent_request_is_not_kept() -> None:
    """DESIGN §3: an upstream that answers early and stops reading delays no other request."""

    async def answer_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno")
        await seen.wait()
        writer.transport.abort()

    seen = asyncio.Event()
    server = await asyncio.start_server(answer_early, "127.0.0.1", 0, limit=2**16)
    upstream = Upstream(UpstreamPolicy(None, 1, 60, 0, 1))
    upstream.open()
    async with server:
        port = server.sockets[0].getsockname()[1]
        body = b"x" * 16_000_000
        reply = await upstream.send(Call("POST", f"http://127.0.0.1:{port}/v1", "/x", [], body))
        said = await reply.read_some()
        reply.release()
        kept = upstream._open_pool().idle.count
        seen.set()
        await asyncio.sleep(0.05)
    await upstream.close()

    assert (reply.status, said, kept) == (401, b"no", 0)


class Whispers:
    """Streams words at the pace at which it is let."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[bytes] = asyncio.Queue()

    async def __call__(self, _: Received, line: Line) -> None:
        await line.head(200, "transfer-encoding: chunked")
        while word := await self.words.get():
            await line.chunk(word)
        await line.chunk(b"")


@asynccontextmanager
async def whispering() -> AsyncIterator[tuple[Whispers, Reply]]:
    """Ask a model that whispers, and return its answer as it arrives."""
    upstream, whispers = Upstream(UpstreamPolicy(None, 1, 60, 0, 1)), Whispers()
    upstream.open()
    async with fake_model(whispers) as model:
        reply = await upstream.send(Call("GET", model.url, "/x", []))
        try:
            yield whispers, reply
        finally:
            reply.release()
            await upstream.close()


async def test_what_a_callback_takes_does_not_wake_the_reader() -> None:
    taken: list[bytes] = []

    def take_all_but_two(piece: bytes) -> bool:
        taken.append(piece)
        return piece != b"two"

    async with whispering() as (whispers, reply):
        reading = asyncio.create_task(reply.read_some(take_all_but_two))
        for word in (b"zero", b"one", b"two"):
            whispers.words.put_nowait(word)
            await eventually(lambda word=word: taken[-1:] == [word])
        returned = await reading
        whispers.words.put_nowait(b"three")
        whispers.words.put_nowait(b"")
        rest = [await reply.read_some(), await reply.read_some()]

    assert taken == [b"zero", b"one", b"two"]
    assert (returned, b"".join(rest)) == (b"two", b"three")


async def test_a_mistake_of_a_callback_is_the_reader_s() -> None:
    def fail(_: bytes) -> bool:
        raise ZeroDivisionError

    async with within(2), whispering() as (whispers, reply):
        reading = asyncio.create_task(reply.read_some(fail))
        await asyncio.sleep(0.01)
        whispers.words.put_nowait(b"one")

        with pytest.raises(ZeroDivisionError):
            await reading


async def test_a_reader_that_was_cancelled_is_offered_nothing_more() -> None:
    taken: list[bytes] = []

    def take(piece: bytes) -> bool:
        taken.append(piece)
        return True

    async with whispering() as (whispers, reply):
        reading = asyncio.create_task(reply.read_some(take))
        await asyncio.sleep(0.01)
        whispers.words.put_nowait(b"one")
        await eventually(lambda: taken)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        whispers.words.put_nowait(b"two")
        later = await reply.read_some()

    assert (taken, later) == ([b"one"], b"two")
