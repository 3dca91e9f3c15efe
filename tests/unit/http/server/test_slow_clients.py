"""Clients that take their time: each form ends at its deadline, in words if HTTP allows (A21)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.support.clock import BACKEND, Stopwatch, within
from tests.support.fake_model import FakeModel, Line, Received, delta, fake_model, on_chat, polite
from tests.support.fake_model import begin_stream as begin
from tests.support.live import Proxy, RawClient, chat_body, chat_request, raw_client, running_proxy

pytestmark = pytest.mark.anyio

LIMITS = {"header_seconds": 0.3, "body_seconds": 0.4}
REQUEST = chat_request()
HEAD, BODY = REQUEST.partition(b"\r\n\r\n")[0] + b"\r\n\r\n", chat_body()


async def nothing(client: RawClient) -> None:
    """Say nothing at all."""


async def half_a_head(client: RawClient) -> None:
    await client.send(HEAD[:40])


async def a_dripping_head(client: RawClient) -> None:
    await drip(client, HEAD[:-2])


async def empty_lines(client: RawClient) -> None:
    await drip(client, b"\r\n" * 40)


async def half_a_body(client: RawClient) -> None:
    await client.send(HEAD + BODY[:10])


async def a_dripping_body(client: RawClient) -> None:
    await client.send(HEAD)
    await drip(client, BODY[:-1])


async def a_dripping_chunked_body(client: RawClient) -> None:
    head = HEAD.replace(b"content-length: %d" % len(BODY), b"transfer-encoding: chunked")
    await client.send(head)
    for n in range(40):
        await drip(client, b"1\r\n%c\r\n" % BODY[n])


async def drip(client: RawClient, data: bytes) -> None:
    for n in range(len(data)):
        await client.send(data[n : n + 1])
        await asyncio.sleep(0.03)


HEADS = [nothing, half_a_head, a_dripping_head, empty_lines]
BODIES = [half_a_body, a_dripping_body, a_dripping_chunked_body]
# A kept connection that says nothing is idle, not slow; so that form is there only once.
FORMS = [
    *((form, "headers", 0.3, 0) for form in HEADS),
    *((form, "headers", 0.3, 1) for form in HEADS[1:]),
    *((form, "body", 0.4, before) for form in BODIES for before in (0, 1)),
]


@contextlib.asynccontextmanager
async def slow(client: RawClient, form: object) -> AsyncIterator[None]:
    """Let the client be slow while the block goes on."""

    async def be_slow() -> None:
        with contextlib.suppress(ConnectionError):
            await form(client)  # type: ignore[operator]

    task = asyncio.create_task(be_slow())
    try:
        yield
    finally:
        task.cancel()


def slow_clients(proxy: Proxy) -> dict[str, float]:
    counter = proxy.services.metrics.slow_clients
    return {phase: counter.labels(phase)._value.get() for phase in ("headers", "body")}


def chats(model: FakeModel) -> list[Received]:
    return [r for r in model.requests if r.method == "POST"]


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return BACKEND


@dataclass
class Scene:
    model: FakeModel
    proxy: Proxy


@pytest.fixture(scope="module")
async def scene() -> AsyncIterator[Scene]:
    """A model and a proxy for all of them, one after another: starting them takes time."""
    async with fake_model(polite) as model, running_proxy(model.url, limits=LIMITS) as proxy:
        yield Scene(model, proxy)


@pytest.mark.parametrize(("form", "phase", "seconds", "requests_before"), FORMS)
async def test_a_slow_client_is_told_and_closed_at_the_deadline(
    form: object, phase: str, seconds: float, requests_before: int, scene: Scene
) -> None:
    """A21, on a new connection and on a kept one."""
    scene.model.requests.clear()
    counted = slow_clients(scene.proxy)
    async with within(3), raw_client(scene.proxy) as client:
        for _ in range(requests_before):
            await client.send(REQUEST)
            assert (await client.answer()).status == 200
        watch = Stopwatch()
        async with slow(client, form):
            answer = await client.answer()
            rest = await client.rest()
        at_least, at_most = watch.wall(), watch.own()

    assert answer.status == 408
    assert answer.error["code"] == answer.headers["x-chat-proxy-error"] == "request_timeout"
    assert answer.headers["connection"] == "close"
    assert rest == b""
    assert seconds * 0.9 <= at_least
    assert at_most < seconds + 0.6
    assert slow_clients(scene.proxy) == counted | {phase: counted[phase] + 1}
    assert len(chats(scene.model)) == requests_before


async def test_a_connection_that_rests_between_requests_is_closed_without_a_word() -> None:
    """A21: idle is not slow."""
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, limits=LIMITS, server={"keep_alive_seconds": 1}) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(REQUEST)
        await client.answer()
        async with within(3):
            rest = await client.rest()
        counted = slow_clients(proxy)

    assert rest == b""
    assert counted == {"headers": 0, "body": 0}


async def test_every_request_begins_a_new_rest() -> None:
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, limits=LIMITS, server={"keep_alive_seconds": 1}) as proxy,
        raw_client(proxy) as client,
    ):
        for _ in range(4):
            await client.send(REQUEST)
            await client.answer()
            await asyncio.sleep(0.4)
        watch = Stopwatch()
        async with within(3):
            rest = await client.rest()
        at_least, at_most = watch.wall(), watch.own()

    assert rest == b""
    assert at_least > 0.3
    assert at_most < 2


async def test_every_mebibyte_buys_a_second() -> None:
    """A21: a body is slow by its size, not by the clock alone."""
    body = chat_body(padding="x" * 2 * 1024 * 1024)
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, limits=LIMITS) as proxy,
        raw_client(proxy) as client,
    ):
        request = chat_request(body)
        for start in range(0, len(request), 256 * 1024):
            await client.send(request[start : start + 256 * 1024])
            await asyncio.sleep(0.1)
        answer = await client.answer()

    assert answer.status == 200
    assert chats(model)[0].body == body


async def test_a_slow_head_behind_a_running_answer_waits_for_it_and_is_then_closed() -> None:
    """A21: never into the middle of another request's answer."""

    async def stream(received: Received, line: Line) -> None:
        await begin(line)
        for n in range(8):
            await line.chunk(delta(f"{n}"))
            await asyncio.sleep(0.1)
        await line.chunk(delta(finish_reason="stop") + b"data: [DONE]\n\n")
        await line.chunk(b"")

    async with (
        fake_model(on_chat(stream)) as model,
        running_proxy(model.url, limits=LIMITS) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(chat_body(stream=True)) + HEAD[:30])
        answer = await client.answer()
        rest = await client.rest()

    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert rest == b""
    assert len(chats(model)) == 1


async def test_the_clock_stands_still_while_the_proxy_itself_does_not_read() -> None:
    """A21: a large request behind a running one is not slow; it has to wait."""

    async def pause(received: Received, line: Line) -> None:
        if len(received.body) < 1000:
            await asyncio.sleep(1)
        await polite(received, line)

    large = chat_body(padding="x" * 8_000_000)
    async with (
        fake_model(on_chat(pause)) as model,
        running_proxy(model.url, limits=LIMITS) as proxy,
        raw_client(proxy) as client,
    ):
        sending = asyncio.create_task(client.send(REQUEST + chat_request(large)))
        first = await client.answer()
        second = await client.answer()
        await sending

    assert (first.status, second.status) == (200, 200)
    assert [len(r.body) for r in chats(model)] == [len(BODY), len(large)]
