"""Rows B1 to B3 and B5: upstreams that cannot be reached, and connections that are gone."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.faulty import is_error
from tests.support.clock import Stopwatch, own_time, within
from tests.support.fake_model import Line, Received, polite
from tests.support.live import Proxy, RawAnswer, chat_request, eventually, raw_client, running_proxy
from tests.support.meeting import black_hole, cut, meeting

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:1/v1"
NAME = "model.example"
RETRIES = 'chat_proxy_retry_total{reason="reused_conn"}'


@dataclass
class Asked:
    """An answer, and how long it took: at least, and at most."""

    answer: RawAnswer
    wall_seconds: float
    own_seconds: float


async def asked(proxy: Proxy) -> Asked:
    """Send a request and wait for its answer."""
    async with within(20), raw_client(proxy) as client:
        watch = Stopwatch()
        await client.send(chat_request())
        return Asked(await client.answer(), watch.wall(), watch.own())


async def test_b1_a_refused_connection_is_told_at_once_and_counts() -> None:
    async with running_proxy(NOBODY, upstream={"breaker_failures": 5}) as proxy:
        answers = [await asked(proxy) for _ in range(5)]
        open_breakers = proxy.services.forwarding.upstream.breakers.open_count()

    assert all(is_error(one.answer, 502, "upstream_connect_error") for one in answers)
    assert min(one.own_seconds for one in answers) < 0.1
    assert open_breakers == 1


@pytest.mark.parametrize(("limit", "longest"), [(0.4, 0.9), (1.5, 2.2)])
async def test_b2_a_black_hole_is_given_up_at_the_limit(limit: float, longest: float) -> None:
    """The first request waits for its list of models too, but not a second longer."""
    with black_hole() as url:
        async with running_proxy(url, upstream={"connect_timeout_seconds": limit}) as proxy:
            found = await asked(proxy)

    assert is_error(found.answer, 504, "upstream_connect_timeout")
    assert limit - 0.05 < found.wall_seconds
    assert found.own_seconds < longest


async def longest_lag(task: "asyncio.Task[Any]") -> float:
    """Return how long the loop was away at most until the task was done."""
    longest = 0.0
    while not task.done():
        before = own_time()
        await asyncio.sleep(0.005)
        longest = max(longest, own_time() - before - 0.005)
    return longest


async def test_b3_an_unknown_name_is_told_and_blocks_nobody() -> None:
    async with running_proxy("http://model.invalid/v1") as proxy:
        asking = asyncio.create_task(asked(proxy))
        lag = await longest_lag(asking)

    assert is_error(asking.result().answer, 502, "upstream_dns_error")
    assert lag < 0.2


class NameService:
    """The system's names, but for one: that is known, unknown, or takes for ever."""

    def __init__(self) -> None:
        self.mood = "well"
        self.may_go_on = threading.Event()
        self._system = socket.getaddrinfo

    def __call__(self, host: Any, *more: Any, **options: Any) -> Any:
        if host != NAME:
            return self._system(host, *more, **options)
        if self.mood == "stalled":
            self.may_go_on.wait(20)
        if self.mood != "well":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self._system("127.0.0.1", *more, **options)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameService]:
    """What the system knows about names, in the test's hand."""
    service = NameService()
    monkeypatch.setattr(socket, "getaddrinfo", service)
    yield service
    service.may_go_on.set()


async def test_b3_a_resolver_that_takes_for_ever_is_given_up_and_blocks_nobody(
    names: NameService,
) -> None:
    names.mood = "stalled"
    limits = {"connect_timeout_seconds": 0.5}
    async with running_proxy(f"http://{NAME}:1/v1", upstream=limits) as proxy:
        asking = asyncio.create_task(asked(proxy))
        lag = await longest_lag(asking)
        names.may_go_on.set()

    found = asking.result()
    assert is_error(found.answer, 502, "upstream_dns_error")
    assert found.own_seconds < 2
    assert lag < 0.2


def forget_names(proxy: Proxy) -> None:
    """Let the names be asked for again, as they are every few seconds."""
    pool = proxy.services.forwarding.upstream._pool
    assert pool is not None
    known = pool._dialler._resolver._known
    for name, resolved in known.items():
        known[name] = resolved._replace(retry_at=0.0)


@pytest.mark.parametrize("mood", ["failing", "stalled"])
async def test_b3_the_last_good_address_serves_while_names_fail(
    mood: str, names: NameService
) -> None:
    limits = {"connect_timeout_seconds": 0.5, "keep_alive_seconds": 0.001}
    async with meeting(polite) as they:
        url = they.model.url.replace("127.0.0.1", NAME)
        async with running_proxy(url, upstream=limits) as proxy:
            first = await asked(proxy)
            await asyncio.sleep(0.05)
            connections, names.mood = they.model.connections, mood
            forget_names(proxy)
            second = await asked(proxy)
            names.may_go_on.set()

            assert (first.answer.status, second.answer.status) == (200, 200)
            assert they.model.connections > connections


class Fickle:
    """A polite model that drops a used connection when it is asked again on it."""

    def __init__(self) -> None:
        self.has_turned = False
        self._used: set[object] = set()

    async def __call__(self, received: Received, line: Line) -> None:
        if self.has_turned and line.writer in self._used:
            cut(line)
            return
        self._used.add(line.writer)
        await polite(received, line)


async def test_b5_a_reused_connection_that_was_closed_is_replaced_once() -> None:
    fickle = Fickle()
    async with meeting(fickle) as they:
        they.model.behaviour = fickle
        await they.ask()
        await eventually(lambda: not they.proxy.services.windows._tasks)
        fickle.has_turned = True
        asked_before = they.chats
        answer = await they.ask()

        assert answer.status == 200
        assert they.chats == asked_before + 2
        assert they.figure(RETRIES) == 1


async def test_b5_b6_the_second_try_is_the_last() -> None:
    async def dies(received: Received, line: Line) -> None:
        cut(line)

    async with meeting(polite) as they:
        await they.ask()
        asked_before, they.model.behaviour = they.chats, dies
        answer = await they.ask()

        assert is_error(answer, 502, "upstream_reset")
        assert they.chats == asked_before + 2
