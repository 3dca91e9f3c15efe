"""One contract for every store: in memory, in a file, in Redis and in a Redis Cluster."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from chat_proxy.store.base import Rows, Store
from chat_proxy.store.memory import MemoryStore
from chat_proxy.store.redis.servers import RedisUrl, servers_of
from chat_proxy.store.redis.store import RedisStore
from chat_proxy.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio
DAY = 86_400.0


@dataclass
class Case:
    """An open store, and how time passes for it."""

    store: Store
    pass_time: Callable[[float], None]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds


def case_of(kind: str, request: pytest.FixtureRequest, path: Path) -> Case:
    clock = Clock()
    if kind == "memory":
        return Case(MemoryStore(clock=clock), clock.move)
    if kind == "sqlite":
        return Case(SqliteStore(path / "store.db", clock=clock, wait_seconds=60), clock.move)
    if kind == "redis":
        redis = [request.getfixturevalue("shared_redis")]
        url = redis[0].url
    else:
        redis = request.getfixturevalue("shared_cluster")
        url = f"redis+cluster://127.0.0.1:{redis[0].port}"

    def pass_time(seconds: float) -> None:
        for server in redis:
            server.pass_time(seconds)

    # A secret of its own: what other tests have put there has other seals, and is no row.
    servers = servers_of(RedisUrl.read(url))
    return Case(RedisStore(servers, secrets.token_bytes(32), wait_seconds=60), pass_time)


@pytest.fixture(params=["memory", "sqlite", "redis", "redis cluster"])
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    case = case_of(request.param, request, tmp_path)
    try:
        await case.store.open()
        yield case
    finally:
        await case.store.close()


@pytest.fixture
def store(case: Case) -> Store:
    return case.store


async def test_what_was_put_comes_back(store: Store) -> None:
    assert await store.put("kind", b"a", b"1", DAY)
    assert await store.put("kind", b"b", b"2", DAY)
    assert await store.put("kind", b"a", b"3", DAY)

    assert await store.get_many("kind", [b"a", b"b", b"c"]) == {b"a": b"3", b"b": b"2"}
    assert await store.get_many("other", [b"a"]) == {}


async def test_what_has_expired_is_gone(case: Case) -> None:
    await case.store.put("kind", b"a", b"1", 1_000)
    await case.store.put("kind", b"b", b"2", DAY)
    before = await case.store.get_many("kind", [b"a", b"b"])

    case.pass_time(1_001)

    assert set(before) == {b"a", b"b"}
    assert await case.store.get_many("kind", [b"a", b"b"]) == {b"b": b"2"}


async def test_a_thousand_keys_are_asked_for_at_once(store: Store) -> None:
    """In a cluster they are at home in all slots."""
    wanted = {b"%d" % number: b"x%d" % number for number in range(0, 1_200, 100)}
    for key, value in wanted.items():
        await store.put("kind", key, value, DAY)

    found = await store.get_many("kind", [b"%d" % number for number in range(1_200)])

    assert found == wanted


async def test_no_keys_are_no_rows(store: Store) -> None:
    assert await store.get_many("kind", []) == {}


@pytest.mark.parametrize("value", [b"", b"\0\r\n\xff", bytes(3_000_000)])
async def test_values_are_any_bytes(store: Store, value: bytes) -> None:
    assert await store.put("kind", b"\0\xff:{}", value, DAY)

    assert await store.get_many("kind", [b"\0\xff:{}"]) == {b"\0\xff:{}": value}


async def test_many_may_ask_at_once(store: Store) -> None:
    """More than there are connections."""
    kept = await asyncio.gather(
        *(store.put("kind", b"%d" % number, b"%d" % number, DAY) for number in range(200))
    )
    found = await asyncio.gather(
        *(store.get_many("kind", [b"%d" % number]) for number in range(200))
    )

    assert all(kept)
    assert found == [{b"%d" % number: b"%d" % number} for number in range(200)]


async def test_a_life_longer_than_any_is_cut_to_the_longest(store: Store) -> None:
    assert await store.put("kind", b"a", b"1", 10**12)

    assert await store.get_many("kind", [b"a"]) == {b"a": b"1"}


async def test_an_address_stands_for_its_parts_and_for_no_others(store: Store) -> None:
    """BUGS 36, 45: whatever a key leaves out is what collides."""
    addresses = {
        store.address(*parts)
        for parts in ([b"ab", b"c"], [b"a", b"bc"], [b"abc"], [b"", b"abc"], [b"abc", b""], [])
    }

    assert len(addresses) == 6
    assert {len(address) for address in addresses} == {32}
    assert store.address(b"ab", b"c") in addresses


async def test_a_cancelled_reader_leaves_the_store_usable(store: Store) -> None:
    """FAULTS D7."""
    await store.put("kind", b"a", b"1", DAY)
    for _ in range(50):
        task = asyncio.create_task(store.get_many("kind", [b"a"]))
        await asyncio.sleep(0)
        task.cancel()

    assert await store.get_many("kind", [b"a"]) == {b"a": b"1"}


async def test_a_write_goes_on_though_its_request_is_cancelled(store: Store) -> None:
    """FAULTS D7."""
    await store.get_many("kind", [b"a"])
    writing = asyncio.create_task(store.put("kind", b"a", b"1", DAY))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait({writing})

    found: Rows = {}
    async with asyncio.timeout(60):
        while not found:
            found = await store.get_many("kind", [b"a"])
    assert found == {b"a": b"1"}
