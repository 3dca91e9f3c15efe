"""FAULTS C12: of several processes one does the work, and a dead one does not keep it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from chat_proxy.store.factory import FailOpenStore
from chat_proxy.store.lease import Lease, OwnLease, renewed
from chat_proxy.store.memory import MemoryStore
from chat_proxy.store.redis.servers import RedisUrl, servers_of
from chat_proxy.store.redis.store import RedisStore
from chat_proxy.store.sqlite.store import SqliteStore
from tests.support.live import eventually
from tests.support.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.anyio

LeasingStore = RedisStore | SqliteStore


def quiet(_operation: str, _reason: str) -> None:
    pass


def store_at(server: RedisServer) -> RedisStore:
    return RedisStore(servers_of(RedisUrl.read(server.url)), b"secret", wait_seconds=60)


@dataclass
class Place:
    """Where processes keep their leases."""

    store: Callable[[], LeasingStore]
    """Return the store of one more process."""
    empty: Callable[[], object]
    """Delete everything, as an operator may."""
    pass_time: Callable[[float], object]
    """Let so many seconds pass for the leases."""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(params=["redis", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("shared_redis")
        server.ask("FLUSHALL")
        return Place(lambda: store_at(server), lambda: server.ask("FLUSHALL"), server.pass_time)
    file, clock = tmp_path / "store.db", Clock()
    return Place(
        lambda: SqliteStore(file, clock=clock, wait_seconds=60),
        lambda: delete_rows(file),
        clock.move,
    )


def delete_rows(file: Path) -> None:
    with closing(sqlite3.connect(file, timeout=60)) as other:
        other.execute("DELETE FROM rows")
        other.commit()


@pytest.fixture
async def replicas(place: Place) -> AsyncIterator[list[LeasingStore]]:
    """The stores of three processes in one place."""
    stores = [place.store() for _ in range(3)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


async def taken(store: LeasingStore, key: bytes = b"key", seconds: float = 10) -> Lease:
    lease = await store.lease(key, seconds)
    assert lease is not None
    return lease


async def test_one_of_many_gets_the_lease(replicas: list[LeasingStore]) -> None:
    leases = await asyncio.gather(*(store.lease(b"key", 10) for store in replicas * 5))

    assert sum(lease is not None for lease in leases) == 1


async def test_leases_of_other_keys_are_free(replicas: list[LeasingStore]) -> None:
    await taken(replicas[0], b"one")

    assert await replicas[0].lease(b"two", 10) is not None


async def test_a_released_lease_is_free(replicas: list[LeasingStore]) -> None:
    lease = await taken(replicas[0])

    await lease.release()

    assert await replicas[1].lease(b"key", 10) is not None


async def test_a_lease_ends_by_itself(replicas: list[LeasingStore], place: Place) -> None:
    """Its holder may have been killed."""
    await taken(replicas[0], seconds=100)

    place.pass_time(101)

    assert await replicas[1].lease(b"key", 10) is not None


class Counted:
    """A lease that knows how often it was renewed."""

    def __init__(self, lease: Lease) -> None:
        self.renewals = 0
        self.release = lease.release
        self._renew = lease.renew

    async def renew(self) -> bool:
        is_held = await self._renew()
        self.renewals += 1
        return is_held

    async def renew_again(self) -> None:
        """Wait for a renewal that begins from now on."""
        before = self.renewals
        await eventually(lambda: self.renewals >= before + 2)


async def test_a_lease_is_renewed_for_as_long_as_the_work_takes(
    replicas: list[LeasingStore], place: Place
) -> None:
    lease = Counted(await taken(replicas[0], seconds=100))

    async with renewed(lease, 0.03):
        for _ in range(3):
            place.pass_time(60)
            await lease.renew_again()
        during = await replicas[1].lease(b"key", 10)

    assert during is None
    assert await replicas[1].lease(b"key", 10) is not None


async def test_work_that_fails_lets_the_lease_go(replicas: list[LeasingStore]) -> None:
    lease = await taken(replicas[0])

    with pytest.raises(RuntimeError):
        async with renewed(lease, 10):
            raise RuntimeError

    assert await replicas[1].lease(b"key", 10) is not None


async def test_who_lost_the_lease_cannot_take_it_from_the_next(
    replicas: list[LeasingStore], place: Place
) -> None:
    """A process that was stopped for longer than its lease wakes up."""
    lost = Counted(await taken(replicas[0], seconds=100))
    place.pass_time(101)
    await taken(replicas[1], seconds=100)

    async with renewed(lost, 0.03):
        await eventually(lambda: lost.renewals == 1)
        held = await lost.renew()

    assert not held
    assert await replicas[2].lease(b"key", 10) is None


async def test_a_flushed_lease_is_held_again_from_its_renewal(
    replicas: list[LeasingStore], place: Place
) -> None:
    lease = await taken(replicas[0])
    place.empty()

    assert await lease.renew()
    assert await replicas[1].lease(b"key", 10) is None


async def test_every_process_sees_which_leases_are_held(
    replicas: list[LeasingStore], place: Place
) -> None:
    lease = await taken(replicas[0], b"one", 1_000)
    await taken(replicas[0], b"short", 100)

    during = [await replicas[1].any_held(keys) for keys in ([b"two", b"one"], [b"two"], [])]
    await lease.release()
    place.pass_time(101)

    assert during == [True, False, False]
    assert not await replicas[1].any_held([b"one", b"short"])


async def test_without_the_server_everybody_may_work(tmp_path: Path) -> None:
    """Work done twice is better than work not done."""
    with running_redis(tmp_path) as server:
        store = store_at(server)
        await store.open()
        held = await taken(store)
        server.stop()

        first = await store.lease(b"key", 10)
        second = await store.lease(b"key", 10)

        assert first is not None
        assert second is not None
        assert await held.renew()
        assert not await store.any_held([b"key"])
        await held.release()
        await store.close()


async def test_a_store_of_one_process_gives_every_lease() -> None:
    store = FailOpenStore(MemoryStore(), required=False, notice=quiet)

    lease = await store.lease(b"key", 10)

    assert isinstance(lease, OwnLease)
    async with renewed(lease, 0.03):
        await asyncio.sleep(0.05)
        assert not await store.any_held([b"key"])
    assert await store.lease(b"key", 10) is not None


async def test_a_shared_store_gives_its_own_leases(place: Place) -> None:
    store = FailOpenStore(place.store(), required=True, notice=quiet)
    await store.open()

    first = await store.lease(b"key", 10)
    second = await store.lease(b"key", 10)

    assert first is not None
    assert second is None
    assert await store.any_held([b"key"])
    await store.close()
