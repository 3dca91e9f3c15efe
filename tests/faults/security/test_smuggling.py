"""F7: requests that two servers could read differently have one reading, or none."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.faults.security.smuggling import BODY, CASES, CHUNKED, LENGTH, Case, head
from tests.support.clock import BACKEND, within
from tests.support.fake_model import FakeModel, Received, fake_model, polite
from tests.support.live import Proxy, raw_client, running_proxy

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Scene:
    model: FakeModel
    proxy: Proxy

    def received(self) -> list[Received]:
        """What reached the upstream, but for the proxy's own question for its models."""
        return [r for r in self.model.requests if (r.method, r.target) != ("GET", "/v1/models")]


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return BACKEND


@pytest.fixture(scope="module")
async def scene() -> AsyncIterator[Scene]:
    limits = {"header_seconds": 0.4, "body_seconds": 0.4}
    async with fake_model(polite) as model, running_proxy(model.url, limits=limits) as proxy:
        yield Scene(model, proxy)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_f7_a_request_has_one_reading_or_none(case: Case, scene: Scene) -> None:
    """F7."""
    scene.model.requests.clear()

    async with within(3), raw_client(scene.proxy) as client:
        await client.send(case.raw)
        answer = await client.answer()
        if case.upstream is None or answer.headers.get("connection") == "close":
            rest = await client.rest()
        else:
            await asyncio.sleep(0.03)
            rest = b""

    assert answer.status == case.status
    assert rest == b""
    found = [(r.method, r.target, r.body) for r in scene.received()]
    if case.upstream is None:
        assert answer.headers["connection"] == "close"
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-chat-proxy-error"] == answer.error["code"]
        assert answer.headers["x-request-id"]
        assert found == []
    else:
        assert found == [case.upstream]


@pytest.mark.parametrize("size", [1, 7, 64])
async def test_f7_where_packets_end_changes_nothing(size: int, scene: Scene) -> None:
    """F7: the trailers of a request that comes in pieces are dropped too."""
    scene.model.requests.clear()
    raw = CASES["trailers that would decide"].raw

    async with within(3), raw_client(scene.proxy) as client:
        for start in range(0, len(raw), size):
            await client.send(raw[start : start + size])
            await asyncio.sleep(0)
        answer = await client.answer()

    (received,) = scene.received()
    assert answer.status == 200
    assert received.body == BODY
    assert received.header("x-evil") is None
    assert received.header("authorization") is None
    assert received.header("content-length") == str(len(BODY))


async def test_f7_trailers_that_come_late_are_dropped_too(scene: Scene) -> None:
    """F7: the app is already running when they arrive."""
    scene.model.requests.clear()

    async with within(3), raw_client(scene.proxy) as client:
        await client.send(head(CHUNKED) + b"%x\r\n%s\r\n" % (len(BODY), BODY))
        await asyncio.sleep(0.05)
        await client.send(b"0\r\nx-evil: 1\r\nx-chat-proxy-mode: off\r\n\r\n")
        answer = await client.answer()

    (received,) = scene.received()
    assert answer.status == 200
    assert received.header("x-evil") is None


async def test_f6_hop_by_hop_headers_stay_here(scene: Scene) -> None:
    """F6."""
    scene.model.requests.clear()
    lines = (
        "connection: x-secret, keep-alive",
        "x-secret: 1",
        "keep-alive: timeout=5",
        "proxy-authorization: Basic x",
        "te: trailers",
        "x-forwarded-for: 1.2.3.4",
        "x-kept: yes",
    )

    async with within(3), raw_client(scene.proxy) as client:
        await client.send(head(LENGTH, *lines) + BODY)
        answer = await client.answer()

    (received,) = scene.received()
    names = {name for name, _ in received.headers}
    assert answer.status == 200
    assert names.isdisjoint(line.partition(":")[0] for line in lines[:-1])
    assert received.header("x-kept") == "yes"


async def test_f7_the_corpus_is_large_and_refusals_are_counted(scene: Scene) -> None:
    """F7: and refusals are counted by their code."""
    refused = next(case for case in CASES.values() if case.upstream is None)

    async with within(3), raw_client(scene.proxy) as client:
        await client.send(refused.raw)
        await client.answer()

    assert len(CASES) >= 60
    assert b'chat_proxy_bad_http_total{code="' in scene.proxy.services.metrics.render()


async def test_f7_a_trailer_that_ends_the_connection_makes_nobody_wait(scene: Scene) -> None:
    """F7: the parser believes it and reads no further, so the answer says so and is the last."""
    raw = CASES["trailers that would decide"].raw

    async with within(3), raw_client(scene.proxy) as client:
        await client.send(raw + head(LENGTH) + BODY)
        answer = await client.answer()
        rest = await client.rest()

    assert answer.status == 200
    assert answer.headers["connection"] == "close"
    assert rest == b""
