"""Rows B17 and B27: what counts as a failure, and an upstream that is left alone for a while."""

import pytest

from chat_proxy.upstream.breaker import Breakers
from tests.faults.faulty import Says, is_error, whole
from tests.support.clock import own_time
from tests.support.conversations import get
from tests.support.fake_model import fake_model, polite
from tests.support.live import (
    RawAnswer,
    RawClient,
    chat_request,
    raw_client,
    running_proxy,
)
from tests.support.meeting import meeting

pytestmark = pytest.mark.anyio

FAILURES = 5


async def ask(client: RawClient) -> RawAnswer:
    await client.send(chat_request())
    return await client.answer()


async def is_told_open(client: RawClient) -> bool:
    """Tell whether the figures say that one upstream is left alone."""
    figures = await get(client, "/metrics")
    return b"\nchat_proxy_upstream_breakers_open 1.0\n" in figures.body


async def nobody() -> str:
    """Return the address of a model that is no more."""
    async with fake_model(polite) as model:
        return model.url


async def test_b27_after_five_failures_the_rest_are_refused_at_once() -> None:
    limits = {"breaker_failures": FAILURES}
    async with (
        running_proxy(await nobody(), upstream=limits) as proxy,
        raw_client(proxy) as client,
    ):
        failures = [await ask(client) for _ in range(FAILURES)]
        times, refusals = [], []
        for _ in range(9):
            began = own_time()
            refusals.append(await ask(client))
            times.append(own_time() - began)
        tenth = await ask(client)
        told_open = await is_told_open(client)

    assert all(is_error(answer, 502, "upstream_connect_error") for answer in failures)
    assert all(is_error(answer, 503, "upstream_unavailable") for answer in refusals)
    assert {25 <= int(answer.headers["retry-after"]) <= 30 for answer in refusals} == {True}
    assert min(times) < 0.01
    assert is_error(tenth, 502, "upstream_connect_error")
    assert told_open


class Later:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def test_b27_one_probe_after_a_pause_that_doubles_finds_it_again() -> None:
    clock = Later()
    async with meeting(Says(then="close")) as they:
        they.proxy.services.forwarding.upstream.breakers = Breakers(FAILURES, 30, clock)
        for _ in range(FAILURES):
            await they.ask()
        waits = []
        for pause in (30, 60, 120, 240, 300, 300):
            clock.now += pause - 1
            waits.append((await they.ask()).status)
            clock.now += 1
            waits.append((await they.ask()).status)
        they.model.behaviour = polite
        clock.now += 300
        found = [(await they.ask()).status for _ in range(4)]
        told_open = await is_told_open(they.client)

    assert waits == [503, 502] * 6
    assert found == [200] * 4
    assert not told_open


@pytest.mark.parametrize("status", [500, 501, 529, 502, 503, 504])
async def test_b17_b27_no_status_counts_as_nobody_there(status: int) -> None:
    """It is an answer: one client's poisonous request must not shut out the others."""
    async with meeting(Says(whole(f"{status} X", b"<html>"))) as they:
        answers = [await they.ask() for _ in range(FAILURES)]
        last = await they.ask()

    assert [answer.status for answer in answers] == [status] * FAILURES
    assert (last.status, "x-chat-proxy-error" in last.headers) == (status, False)
