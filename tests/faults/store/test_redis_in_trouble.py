"""D8, D9: a Redis that is away, refuses, or gives back what nobody put there."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.replicas.fleet import SECRET, fleet_of, store_in
from tests.journeys.summaries.talking import WINDOW, label, long_chat
from tests.support.clock import own_time
from tests.support.conversations import get
from tests.support.redis_server import RedisServer, answering, running_redis
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, user

pytestmark = pytest.mark.anyio

# The bound of 250 ms once for each operation of a request, and what a busy machine adds.
FIRST_SECONDS = 1.5
KINDS = ("checkpoint", "prepared")
LENGTH_OF_SEAL = 40


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that the test may harm."""
    with running_redis(tmp_path) as server:
        yield server


def another_chat(name: object) -> list[Fields]:
    """A conversation over the trigger that nobody has seen before."""
    return [user(f"I am {name}"), *long_chat()[2:]]


def rows_of(server: RedisServer) -> list[bytes]:
    """The names of all that is kept of compactions."""
    return [name for kind in KINDS for name in sorted(server.ask("KEYS", f"chat-proxy:{kind}:*"))]


def foreign(server: RedisServer) -> None:
    """Replace every value by bytes from elsewhere."""
    for name in rows_of(server):
        server.ask("SET", name, b"x" * 1_000)


def cut_short(server: RedisServer) -> None:
    """Take the last byte off every value."""
    for name in rows_of(server):
        server.ask("SET", name, server.ask("GET", name)[:-1])


def mixed_up(server: RedisServer) -> None:
    """Give every key of a kind the value of another."""
    for kind in KINDS:
        names = [name for name in rows_of(server) if f":{kind}:".encode() in name]
        values = [server.ask("GET", name) for name in names]
        for name, value in zip(names, [*values[1:], values[0]], strict=True):
            server.ask("SET", name, value)


def altered(server: RedisServer) -> None:
    """Change a byte behind the seal of every value."""
    for name in rows_of(server):
        server.ask("SETRANGE", name, LENGTH_OF_SEAL + 5, b"\xff")


@pytest.mark.parametrize("trouble", [RedisServer.stop, RedisServer.freeze])
async def test_d8_a_redis_that_goes_away_costs_its_bound_once_and_memory_serves(
    server: RedisServer, trouble: Callable[[RedisServer], object]
) -> None:
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(1, brain, store_in(server)) as fleet:
        before = await fleet.ask(long_chat())
        trouble(server)
        start = own_time()
        new = await fleet.ask(another_chat("new"))
        first = own_time() - start
        again = [await fleet.ask(long_chat()), await fleet.ask(another_chat("new"))]
        errors = fleet.store_errors("slow") + fleet.store_errors("unavailable")
        ready = await get(fleet.talks[0].line, "/readyz")
        server.stop()

    assert first < FIRST_SECONDS
    assert label(new) == "built"
    assert [label(it) for it in again] == ["reused", "reused"]
    assert [it.upstream for it in again] == [before.upstream, new.upstream]
    assert errors == 1
    assert (ready.status, ready.body) == (200, b'{"status":"ready","degraded":"store"}')


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"-LOADING Redis is loading the dataset in memory\r\n", "loading"),
        (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "full"),
        (b"-MOVED 866 127.0.0.1:7001\r\n", "moved"),
        (b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "error"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "error"),
    ],
    ids=["loading", "full", "moved", "wrong type", "no redis"],
)
async def test_d8_a_redis_that_refuses_costs_reuse_by_others_and_nothing_else(
    answer: bytes, reason: str
) -> None:
    brain = SummaryModel(window=WINDOW)
    async with answering(answer) as port:
        store = {"url": f"redis://127.0.0.1:{port}", "secret": SECRET}
        async with fleet_of(1, brain, store) as fleet:
            asked = [await fleet.ask(long_chat()) for _ in range(2)]
            errors = fleet.store_errors(reason)

    assert [label(it) for it in asked] == ["built", "reused"]
    assert len({it.upstream for it in asked}) == 1
    assert errors > 0


@pytest.mark.parametrize("harm", [foreign, cut_short, mixed_up, altered])
async def test_d9_what_this_deployment_did_not_put_there_is_never_used(
    server: RedisServer, harm: Callable[[RedisServer], Any]
) -> None:
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(2, brain, store_in(server)) as fleet:
        knows, other = fleet.talks
        before = [await knows.ask(another_chat(name)) for name in ("Ann", "Bob")]
        harm(server)
        after = [await other.ask(another_chat(name)) for name in ("Ann", "Bob")]
        refused = fleet.store_errors("integrity")

    assert [label(it) for it in (*before, *after)] == ["built"] * 4
    assert len(brain.summaries) == 4
    assert refused >= 2
    assert b"I am Bob" not in after[0].upstream
    assert b"I am Ann" not in after[1].upstream
