"""When a conversation's last request was, by its content."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chat_proxy.proxy.session.recognition.last_seen import KIND, LastSeen
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.base import Rows, Store
from chat_proxy.store.memory import MemoryStore
from chat_proxy.store.sqlite.store import SqliteStore
from tests.unit.proxy.session.recognition.histories import words

pytestmark = pytest.mark.anyio

ALICE = Scope("alice", b"policy")
HOUR = 3_600.0


class MonitoredStore(MemoryStore):
    """A store that counts what it is asked and told, and can refuse."""

    def __init__(self) -> None:
        super().__init__(b"secret")
        self.asked = 0
        self.told: list[bytes] = []
        self.is_down = False

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        self.asked += 1
        return await super().get_many(kind, keys)

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        self.told.append(key)
        return not self.is_down and await super().put(kind, key, value, ttl_seconds, owner)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Seen:
    """A memory of histories under a clock that a test moves."""

    def __init__(self, store: Store, write_seconds: float = 60) -> None:
        self.clock = Clock()
        self.last_seen = LastSeen(store, self.clock, write_seconds)

    async def touch(self, messages: str, scope: Scope = ALICE) -> float | None:
        """Tell of a history, one letter a message."""
        return await self.last_seen.touch(scope, words(*messages))


@asynccontextmanager
async def seen_in(store: Store, write_seconds: float = 60) -> AsyncIterator[Seen]:
    seen = Seen(store, write_seconds)
    yield seen
    await seen.last_seen.close()


async def test_a_new_conversation_was_never_seen() -> None:
    async with seen_in(MonitoredStore()) as seen:
        assert await seen.touch("a") is None
        assert await seen.touch("b") is None
        assert await seen.touch("") is None


async def test_a_conversation_that_goes_on_was_seen_at_its_last_request() -> None:
    async with seen_in(MonitoredStore()) as seen:
        await seen.touch("a")
        seen.clock.now += 10
        first = await seen.touch("abc")
        seen.clock.now += HOUR
        second = await seen.touch("abcde")

    assert (first, second) == (10, HOUR)


async def test_the_same_request_again_was_seen_just_now() -> None:
    async with seen_in(MonitoredStore()) as seen:
        await seen.touch("a")
        for _ in range(3):
            seen.clock.now += 5
            assert await seen.touch("a") == 5


async def test_an_edited_last_message_goes_on_from_the_request_before() -> None:
    async with seen_in(MonitoredStore()) as seen:
        await seen.touch("a")
        seen.clock.now += HOUR
        await seen.touch("abc")
        seen.clock.now += 5

        assert await seen.touch("abX") == 5


@pytest.mark.parametrize("scope", [Scope("bob", b"policy"), Scope("alice", b"another")])
async def test_another_tenant_or_policy_has_its_own_times(scope: Scope) -> None:
    """FAULTS F4, BUGS 36."""
    async with seen_in(MonitoredStore()) as seen:
        await seen.touch("a")

        assert await seen.touch("a", scope) is None


async def test_a_clock_that_goes_back_gives_no_negative_time() -> None:
    """FAULTS D13."""
    async with seen_in(MonitoredStore()) as seen:
        await seen.touch("a")
        seen.clock.now -= HOUR

        assert await seen.touch("ab") == 0


async def test_times_survive_a_restart(tmp_path: Path) -> None:
    """BUGS 37."""
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    async with seen_in(store) as before:
        await before.touch("a")
        before.clock.now += 60
        await before.touch("abc")
    async with seen_in(store) as after:
        after.clock.now += 60 + HOUR

        assert await after.touch("abcde") == HOUR
        assert await after.touch("abcdefg") == 0
    await store.close()


async def test_the_store_is_asked_only_for_what_memory_does_not_know() -> None:
    store = MonitoredStore()
    async with seen_in(store) as seen:
        await seen.touch("a")
        await seen.touch("abc")
        await seen.touch("abcde")

    assert store.asked == 1


async def test_what_was_replaced_before_it_was_written_is_not_written() -> None:
    store = MonitoredStore()
    async with seen_in(store) as seen:
        for length in range(1, 20):
            await seen.touch("abcdefghijklmnopqrstuvwxyz"[:length])
        assert store.told == []

    assert len(store.told) == 1


async def test_times_are_written_behind() -> None:
    store = MonitoredStore()
    async with seen_in(store, write_seconds=0.01) as seen:
        await seen.touch("a")
        assert store.told == []

        await asyncio.sleep(0.1)
        assert len(store.told) == 1
        await seen.touch("b")

        await asyncio.sleep(0.1)
        assert len(store.told) == 2


async def test_a_store_that_refuses_is_not_told_of_all_that_waits() -> None:
    store = MonitoredStore()
    store.is_down = True
    async with seen_in(store) as seen:
        for message in "abcdef":
            await seen.touch(message)

    assert len(store.told) == 1


async def test_a_row_that_is_no_time_is_a_miss() -> None:
    store = MonitoredStore()
    link = words("a").links[-1]
    await store.put(KIND, ALICE.address(store, KIND, link), b"soon", 60)
    async with seen_in(store) as seen:
        assert await seen.touch("a") is None


async def test_closing_what_was_never_used_does_nothing() -> None:
    store = MonitoredStore()

    await LastSeen(store).close()

    assert store.told == []


async def test_a_long_conversation_takes_two_places_in_memory() -> None:
    async with seen_in(MonitoredStore()) as seen:
        for length in range(1, 20):
            await seen.touch("abcdefghijklmnopqrstuvwxyz"[:length])

        assert len(seen.last_seen._seen) == 2
