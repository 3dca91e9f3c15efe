"""F30: the limit on requests in memory holds, whatever their bodies become when they are parsed."""

import asyncio
from contextlib import suppress

import pytest

from tests.faults.faulty import is_error
from tests.support.fake_model import COMPLETION, Line, Received, answer_json
from tests.support.live import RawClient, chat_body, chat_request, eventually
from tools.crowds.run import ProxyProcess, proxy_process

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

MEBIBYTE = 1024 * 1024
LIMIT = 64 * MEBIBYTE
BODIES = 40
BODY_BYTES = 720_000
STEADY_BYTES = 256 * 1024


def filled(unit: bytes, size: int = BODY_BYTES) -> bytes:
    """A list of so many units as make up a body."""
    return b"[" + b",".join([unit] * (size // (len(unit) + 1))) + b"]"


def with_metadata(value: bytes) -> bytes:
    return chat_body()[:-1] + b',"metadata":' + value + b"}"


def said(content: bytes) -> bytes:
    return b'{"model":"fake","messages":[{"role":"user","content":' + content + b"}]}"


SHAPES = {
    "objects": with_metadata(filled(b'{"a":0}')),
    "empty lists, parsed at once": with_metadata(filled(b"[]", 480_000)),
    "wide text": said(b'"' + b"word " * (BODY_BYTES // 5) + "\U0001f600".encode() + b'"'),
    "parts": said(filled(b'{"type":"text","text":"a"}')),
}


class Crowd:
    """Clients that send a body each and wait; what they were told, and what that took at most."""

    def __init__(self, proxy: ProxyProcess) -> None:
        self.proxy = proxy
        self.refused: list[str] = []
        self.peak = 0

    async def send(self, body: bytes, asked: list[bytes]) -> None:
        """Send the body from many clients, until each has reached the model or was refused."""
        clients = [await self.proxy.connect() for _ in range(BODIES)]
        watching = asyncio.create_task(self._watch())
        sending = [asyncio.create_task(self._ask(client, body)) for client in clients]
        await eventually(lambda: len(asked) + len(self.refused) == BODIES, 100)
        for task in (watching, *sending):
            task.cancel()
        for client in clients:
            client.leave()

    async def _ask(self, client: RawClient, body: bytes) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await client.send(chat_request(body))
            self.refused.append((await client.answer()).headers["x-chat-proxy-error"])

    async def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, self.proxy.rss())
            await asyncio.sleep(0.005)


async def warmed_up(proxy: ProxyProcess) -> int:
    """Have the tokenizer loaded; return the memory that the proxy then has."""
    client = await proxy.connect()
    await client.send(chat_request())
    before = 0
    while abs(proxy.rss() - before) > STEADY_BYTES:
        before = proxy.rss()
        await asyncio.sleep(1)
    client.leave()
    return proxy.rss()


@pytest.mark.parametrize("body", SHAPES.values(), ids=SHAPES)
async def test_f30_the_limit_holds_within_twice_its_value(body: bytes) -> None:
    """F30: 40 bodies of 0.72 MB took 700 MB; now most are told to come again."""
    asked: list[bytes] = []

    async def silent(received: Received, line: Line) -> None:
        asked.append(received.body[:1])
        await line.until_closed()

    async with proxy_process(silent, LIMITS_MAX_INFLIGHT_BYTES=str(LIMIT)) as proxy:
        start = await warmed_up(proxy)
        asked.clear()
        crowd = Crowd(proxy)
        await crowd.send(body, asked)

    assert asked
    assert set(crowd.refused) == {"overloaded"}
    assert crowd.peak - start < 2 * LIMIT


async def test_f30_a_request_without_memory_is_refused_after_parsing_too() -> None:
    """F30: the connection stays, and what it sends next is answered when there is memory."""
    waiting = asyncio.Event()

    async def slow_at_first(received: Received, line: Line) -> None:
        if waiting.is_set():
            await answer_json(line, COMPLETION)
        else:
            waiting.set()
            await line.until_closed()

    large = chat_request(with_metadata(filled(b"0", 100_000)))
    async with (
        asyncio.timeout(100),
        proxy_process(slow_at_first, LIMITS_MAX_INFLIGHT_BYTES="8000000") as proxy,
    ):
        first, second = await proxy.connect(), await proxy.connect()
        await first.send(large)
        await waiting.wait()
        await second.send(large)
        refused = await second.answer()
        first.leave()
        await asyncio.sleep(0.5)
        await second.send(large)
        answer = await second.answer()
        second.leave()

    assert (refused.status, answer.status) == (503, 200)
    assert is_error(refused, 503, "overloaded")
