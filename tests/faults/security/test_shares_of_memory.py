"""F29: what a tenant announces is not reserved, and what it sends takes its own share only."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from chat_proxy.errors import Overloaded
from chat_proxy.proxy.lifecycle.admission import Admission
from tests.faults.faulty import is_error
from tests.support.clock import within
from tests.support.fake_model import fake_model, polite
from tests.support.live import (
    Proxy,
    RawAnswer,
    RawClient,
    chat_body,
    chat_request,
    eventually,
    raw_client,
    running_proxy,
)

pytestmark = pytest.mark.anyio

MALLORY, ALICE = "authorization: Bearer mallory", "authorization: Bearer alice"
MEBIBYTE = 1024 * 1024
SOCKETS = 16
PIECE = 100_000


def begun(announced: int, sent: int, *headers: str) -> bytes:
    """The beginning of a request: its head, and some of the body that it announces."""
    whole = chat_request(b"x" * announced, *headers)
    return whole[: len(whole) - announced + sent]


@asynccontextmanager
async def sending(proxy: Proxy, count: int, begins: bytes) -> AsyncIterator[list[RawClient]]:
    """Have so many clients in the middle of their requests."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw_client(proxy)) for _ in range(count)]
        for client in clients:
            await client.send(begins)
        yield clients


async def asked(proxy: Proxy, who: str, body: bytes = chat_body()) -> RawAnswer:
    """Ask on a connection of its own."""
    async with raw_client(proxy) as client:
        await client.send(chat_request(body, who))
        return await client.answer()


async def test_f29_what_is_announced_reserves_nothing() -> None:
    """F29: 16 heads of a hundred bytes announced all the memory, and shut out everybody."""
    begins = begun(32 * MEBIBYTE, 1, MALLORY)
    async with (
        within(20),
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        sending(proxy, SOCKETS, begins),
    ):
        await eventually(lambda: proxy.services.drain.running == SOCKETS)
        held = proxy.services.admission.held_bytes
        answers = [await asked(proxy, who) for who in (ALICE, MALLORY)]

    assert held == SOCKETS
    assert [answer.status for answer in answers] == [200, 200]


async def test_f29_a_tenant_that_fills_the_memory_leaves_some_to_others() -> None:
    """F29: it is told to come again, and the others notice nothing."""
    begins = begun(MEBIBYTE, PIECE, MALLORY)
    limits = {"max_inflight_bytes": 10 * PIECE}
    async with (
        within(20),
        fake_model(polite) as model,
        running_proxy(model.url, limits=limits) as proxy,
        sending(proxy, SOCKETS, begins) as clients,
    ):
        await eventually(lambda: proxy.services.drain.running == 8)
        answers = [await asked(proxy, ALICE, chat_body(user="x" * 20_000)) for _ in range(5)]
        mallory = await asked(proxy, MALLORY, chat_body(user="x" * 20_000))
        refused = [await client.answer() for client in clients[8:]]

    assert [answer.status for answer in answers] == [200] * 5
    assert is_error(mallory, 503, "overloaded")
    assert all(is_error(answer, 503, "overloaded") for answer in refused)


async def test_f29_a_body_that_finds_no_memory_in_its_middle_is_answered_and_closed() -> None:
    """F29: its client reads the refusal, although it was still sending; nothing stays behind."""
    limits = {"max_inflight_bytes": 10 * PIECE}
    async with (
        within(20),
        fake_model(polite) as model,
        running_proxy(model.url, limits=limits) as proxy,
        sending(proxy, 1, begun(MEBIBYTE, 6 * PIECE, MALLORY)),
        raw_client(proxy) as client,
    ):
        await eventually(lambda: proxy.services.admission.held_bytes == 6 * PIECE)
        await client.send(begun(MEBIBYTE, 4 * PIECE, MALLORY))
        answer = await client.answer()
        await client.send(b"x" * PIECE)
        rest = await client.rest()
        await eventually(lambda: proxy.services.admission.held_bytes == 6 * PIECE)
        await eventually(lambda: proxy.services.drain.running == 1)

    assert is_error(answer, 503, "overloaded")
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["connection"] == "close"
    assert rest == b""
    assert model.requests == [it for it in model.requests if it.method == "GET"]


def test_f29_a_newcomer_finds_memory_however_many_came_before() -> None:
    """F29: those that are greedy share what one of them would have got alone."""
    admission = Admission(1_000_000)
    shares = []
    for tenant in "abcdefgh":
        held = 0
        while True:
            try:
                admission.hold(tenant, 0, 1_000)
            except Overloaded:
                break
            held += 1_000
        shares.append(held)

    assert shares[0] == 800_000
    assert shares == sorted(shares, reverse=True)
    assert admission.held_bytes < 1_000_000
    assert admission.hold("late", 0, 1) == 1
