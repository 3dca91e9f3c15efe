"""Rows A20 and A21: clients that stop reading, and clients that hardly write."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.faults.client.conftest import Desk, Serving
from tests.faults.faulty import chats, is_error, metric
from tests.support.clock import Stopwatch, within
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
    RawClient,
    chat_body,
    chat_request,
    eventually,
    raw_client,
    running_proxy,
)

pytestmark = pytest.mark.anyio

MOST_HELD_BYTES = 128 * 1024
STALL_SECONDS = 0.5
DEADLINES = {"header_seconds": 0.3, "body_seconds": 0.4}


class Flood:
    """A model that streams without end and knows how much it could send."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.let_go = False

    async def __call__(self, _: Received, line: Line) -> None:
        # A small buffer, so that what is sent has really gone to the proxy.
        line.writer.transport.set_write_buffer_limits(0)
        await begin_stream(line)
        piece = delta("x" * 16_000)
        try:
            while True:
                await line.chunk(piece)
                self.sent_bytes += len(piece)
        finally:
            self.let_go = True


async def stands_still(flood: Flood) -> int:
    """Wait until nothing more can be sent; return how much was."""
    while True:
        sent_bytes = flood.sent_bytes
        await asyncio.sleep(0.1)
        if sent_bytes == flood.sent_bytes > 0:
            return sent_bytes


async def test_a20_a_client_that_stops_reading_is_cut_off(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does not take is not piled up for it either."""
    # The kernel has a clock of its own, which does not wait for this process.
    monkeypatch.setattr("chat_proxy.http.server.timeouts.KERNEL_FACTOR", 1_000)
    flood = Flood()
    limits = {"client_stall_seconds": STALL_SECONDS}
    async with fake_model(on_chat(flood)) as model, serving(model.url, limits=limits) as proxy:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", proxy.port))
            client.sendall(chat_request(chat_body(stream=True)))
            async with within(5):
                await stands_still(flood)
            connections = proxy.server.server_state.connections
            held = [each.transport.get_write_buffer_size() for each in connections]
            seconds = await eventually(lambda: flood.let_go)
        await eventually(lambda: metric(proxy, "chat_proxy_client_stall_total") == 1)

    assert 0 < max(held) <= MOST_HELD_BYTES
    assert seconds < STALL_SECONDS + 1


async def test_a20_a_client_that_reads_slowly_gets_everything(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow is not stalled."""
    monkeypatch.setattr("chat_proxy.http.server.timeouts.KERNEL_FACTOR", 1_000)

    async def long(received: Received, line: Line) -> None:
        await begin_stream(line)
        for _ in range(60):
            await line.chunk(delta("x" * 100_000))
        await line.chunk(delta(finish_reason="stop") + DONE)
        await line.chunk(b"")

    async with (
        fake_model(on_chat(long)) as model,
        serving(model.url, limits={"client_stall_seconds": STALL_SECONDS}) as proxy,
        raw_client(proxy) as client,
    ):
        transport = client.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        await client.send(chat_request(chat_body(stream=True)))
        for _ in range(8):
            await asyncio.sleep(0.1)
            transport.resume_reading()
            await asyncio.sleep(0.002)
            transport.pause_reading()
        transport.resume_reading()
        answer = await client.answer()

    assert answer.body.endswith(DONE)
    assert len(answer.body) > 6_000_000


HEAD, _, BODY = chat_request().partition(b"\r\n\r\n")


async def drip(client: RawClient, data: bytes) -> None:
    """Send byte after byte, each long before the deadline."""
    with contextlib.suppress(ConnectionError):
        for byte in data:
            await client.send(bytes([byte]))
            await asyncio.sleep(0.03)


async def silent(client: RawClient) -> None:
    """Say nothing at all."""


async def half_a_head(client: RawClient) -> None:
    await client.send(HEAD[:40])


async def dripping_head(client: RawClient) -> None:
    await drip(client, HEAD)


async def half_a_body(client: RawClient) -> None:
    await client.send(HEAD + b"\r\n\r\n" + BODY[:10])


async def dripping_body(client: RawClient) -> None:
    await client.send(HEAD + b"\r\n\r\n")
    await drip(client, BODY[:-1])


@pytest.fixture(scope="module")
async def strict() -> AsyncIterator[Desk]:
    """A proxy with short deadlines."""
    async with fake_model(polite) as model, running_proxy(model.url, limits=DEADLINES) as proxy:
        yield Desk(model, proxy)


@pytest.mark.parametrize(
    ("form", "phase", "deadline"),
    [
        (silent, "headers", 0.3),
        (half_a_head, "headers", 0.3),
        (dripping_head, "headers", 0.3),
        (half_a_body, "body", 0.4),
        (dripping_body, "body", 0.4),
    ],
)
async def test_a21_a_slow_client_is_told_and_closed_at_the_deadline(
    form: Callable[[RawClient], Awaitable[None]], phase: str, deadline: float, strict: Desk
) -> None:
    figure = f'chat_proxy_slow_client_total{{phase="{phase}"}}'
    before = strict.figure(figure)
    async with within(10), raw_client(strict.proxy) as client:
        watch = Stopwatch()
        slowly = asyncio.ensure_future(form(client))
        answer = await client.answer()
        rest = await client.rest()
        at_least, at_most = watch.wall(), watch.own()
        slowly.cancel()

    assert is_error(answer, 408, "request_timeout")
    assert answer.headers["connection"] == "close"
    assert rest == b""
    assert deadline * 0.9 <= at_least
    assert at_most < deadline + 1
    assert strict.figure(figure) == before + 1
    assert chats(strict.model) == []
