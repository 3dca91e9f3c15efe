"""Stopping: who asks is told, who is being answered is answered or told why not (E1, E2)."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from chat_proxy.cli.serve import listen, server_of
from chat_proxy.http.process.shutdown import address_of
from chat_proxy.server import create_app
from tests.support.clock import own_time, within
from tests.support.command import running_command
from tests.support.fake_model import (
    DONE,
    Line,
    Received,
    begin_stream,
    delta,
    fake_model,
    on_chat,
    polite,
)
from tests.support.live import (
    Proxy,
    RawAnswer,
    RawClient,
    chat_body,
    chat_request,
    eventually,
    http_client,
    raw_client,
    running_proxy,
    settings,
)

pytestmark = pytest.mark.anyio

STREAM = chat_request(chat_body(stream=True))
READY = b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n"


def streaming(words: int, pause: float = 0.1) -> object:
    """A model that says so many words with a pause behind each."""

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line)
        for n in range(words):
            await line.chunk(delta(f"word{n} "))
            await asyncio.sleep(pause)
        await line.chunk(delta(finish_reason="stop") + DONE)
        await line.chunk(b"")

    return on_chat(behave)


async def begin(client: RawClient) -> None:
    """Ask for a stream and wait until it runs."""
    await client.send(STREAM)
    await client.reader.readuntil(b"\r\n\r\n")


async def end(client: RawClient) -> bytes:
    """Read the rest of a stream, properly ended."""
    return await client._body({"transfer-encoding": "chunked"})


def terminate(proxy: Proxy, number: signal.Signals = signal.SIGTERM) -> None:
    proxy.server.handle_exit(number, None)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def assert_told(body: bytes) -> None:
    last, done = body.split(b"\n\n")[-3:-1]
    answer = RawAnswer(200, {}, last.removeprefix(b"data: "))
    assert answer.error["code"] == "server_shutting_down"
    assert done == b"data: [DONE]"


@asynccontextmanager
async def stopping(words: int, pause: float = 0.1, **server: float) -> AsyncIterator[Proxy]:
    async with (
        fake_model(streaming(words, pause)) as model,  # type: ignore[arg-type]
        running_proxy(model.url, server=server) as proxy,
    ):
        yield proxy


async def test_a_stopping_server_says_so_at_once_and_goes_on_for_a_while() -> None:
    """E1."""
    async with (
        stopping(10, drain_grace_seconds=0.5, drain_seconds=3) as proxy,
        raw_client(proxy) as client,
        http_client(proxy) as others,
    ):
        await begin(client)
        before = await others.get("/readyz")
        terminate(proxy)
        await asyncio.sleep(0.01)
        after = await others.get("/readyz")
        async with raw_client(proxy) as late:
            await late.send(chat_request(chat_body(stream=True)))
            answered = await late.reader.readuntil(b"\r\n\r\n")
        await eventually(lambda: not is_listening(proxy.port))
        body = await end(client)
        rest = await client.rest()

    assert (before.status_code, after.status_code) == (200, 503)
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert body.count(b"word") == 10
    assert body.endswith(DONE)
    assert rest == b""


async def test_ctrl_c_has_no_grace() -> None:
    """E1."""
    async with stopping(1, drain_grace_seconds=60) as proxy:
        terminate(proxy, signal.SIGINT)
        await eventually(lambda: not is_listening(proxy.port))


async def test_a_long_stream_ends_with_an_error_at_the_deadline() -> None:
    """E1."""
    async with (
        stopping(1000, drain_seconds=0.4) as proxy,
        raw_client(proxy) as client,
    ):
        await begin(client)
        terminate(proxy)
        body = await end(client)
        rest = await client.rest()

    assert_told(body)
    assert rest == b""


async def test_an_answer_that_has_not_begun_becomes_a_503_at_the_deadline() -> None:
    """E1."""

    async def wait(received: Received, line: Line) -> None:
        await line.until_closed()

    async with (
        fake_model(on_chat(wait)) as model,
        running_proxy(model.url, server={"drain_seconds": 0.2}) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request())
        await eventually(lambda: any(r.method == "POST" for r in model.requests))
        terminate(proxy)
        answer = await client.answer()

    assert answer.status == 503
    assert answer.error["code"] == answer.headers["x-chat-proxy-error"] == "server_shutting_down"
    assert answer.headers["connection"] == "close"


async def test_connections_without_a_request_are_closed() -> None:
    """E1: a new one, an idle one, and one that has begun to ask."""
    async with (
        stopping(1) as proxy,
        raw_client(proxy) as new,
        raw_client(proxy) as idle,
        raw_client(proxy) as asking,
    ):
        await idle.send(READY)
        await idle.answer()
        await asking.send(READY[:10])
        terminate(proxy)
        async with within(2):
            rests = [await client.rest() for client in (new, idle, asking)]

    assert rests == [b"", b"", b""]


async def test_a_second_signal_ends_everything_at_once() -> None:
    """E2."""
    async with (
        stopping(1000, drain_grace_seconds=60, drain_seconds=60) as proxy,
        raw_client(proxy) as client,
    ):
        await begin(client)
        terminate(proxy)
        await asyncio.sleep(0.05)
        began = own_time()
        terminate(proxy)
        body = await end(client)
    took = own_time() - began

    assert_told(body)
    assert took < 2


async def test_a_second_signal_does_not_wait_for_a_client_that_does_not_read() -> None:
    """E2, A20."""

    async def flood(received: Received, line: Line) -> None:
        await begin_stream(line)
        while True:
            await line.chunk(delta("x" * 64_000))

    async with (
        fake_model(on_chat(flood)) as model,
        running_proxy(model.url, server={"drain_seconds": 60}) as proxy,
    ):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", proxy.port))
            client.sendall(STREAM)
            await asyncio.sleep(0.3)
            terminate(proxy)
            began = own_time()
            terminate(proxy)
            await eventually(lambda: proxy.server.force_exit)

    assert own_time() - began < 2


async def test_at_the_deadline_nobody_waits_for_a_client_that_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E1, A20: its last words do not fit anywhere, so its connection is broken."""
    monkeypatch.setattr("chat_proxy.routes.front.error_responses.SEND_SECONDS", 0.2)

    async def flood(received: Received, line: Line) -> None:
        await begin_stream(line)
        while True:
            await line.chunk(delta("x" * 64_000))

    async with (
        fake_model(on_chat(flood)) as model,
        running_proxy(model.url, server={"drain_seconds": 0.1}) as proxy,
    ):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", proxy.port))
            client.sendall(STREAM)
            await asyncio.sleep(0.3)
            terminate(proxy)
            await eventually(lambda: not proxy.server.server_state.connections, 2)


async def test_a_signal_during_the_start_is_not_lost() -> None:
    """E1."""
    chosen = settings()
    server = server_of(create_app(chosen, {}), chosen)
    server.handle_exit(signal.SIGTERM, None)

    async with within(2):
        await server._serve([listen("127.0.0.1", 0)])

    assert not server.server_state.connections


@pytest.mark.parametrize(
    ("host", "address"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")]
)
def test_a_server_says_where_it_listens(host: str, address: str) -> None:
    with listen(host, 0) as listener:
        assert address_of([listener]) == f"{address}{listener.getsockname()[1]}"


def test_a_server_without_sockets_of_its_own_says_nothing() -> None:
    assert address_of(None) == ""


async def test_a_real_process_ends_at_once_by_a_second_signal() -> None:
    """E2."""
    async with (
        fake_model(streaming(1000)) as model,  # type: ignore[arg-type]
        running_command(
            "serve", UPSTREAM_BASE_URL=model.url, SERVER_DRAIN_SECONDS="3600"
        ) as command,
    ):
        port = int((await command.url()).rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        client = RawClient(reader, writer)
        await begin(client)
        command.process.send_signal(signal.SIGTERM)
        await command.said("server stopping")
        command.process.send_signal(signal.SIGTERM)
        body = await end(client)
        code = await command.ended()
        writer.close()

    assert_told(body)
    assert code == 0


async def test_polite_requests_after_the_signal_are_served_in_the_grace() -> None:
    """E1: load balancers need a moment to notice."""
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, server={"drain_grace_seconds": 0.3}) as proxy,
        http_client(proxy) as client,
    ):
        terminate(proxy)
        answer = await client.post("/v1/chat/completions", content=chat_body())

    assert answer.status_code == 200
