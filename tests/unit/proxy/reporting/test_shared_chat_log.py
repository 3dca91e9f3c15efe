"""Two processes, one store: each shows the chats of both."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from chat_proxy import write_behind
from chat_proxy.proxy.reporting import shared_chat_log as shared_history
from chat_proxy.proxy.reporting.shared_chat_log import (
    PAGE_ROWS,
    SLOT,
    SLOTS,
    Head,
    SharedChatLog,
    free_slot,
)
from chat_proxy.store.base import Rows, Store
from chat_proxy.store.memory import MemoryStore
from chat_proxy.store.sqlite.store import SqliteStore
from chat_proxy.telemetry.chat_history import ROWS, ChatHistory
from tests.journeys.dashboard.records import finished
from tests.support.live import eventually

pytestmark = pytest.mark.anyio


class Hours:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


def process(store: Store, hours: Hours) -> SharedChatLog:
    return SharedChatLog(store, ChatHistory(hours), hours)


async def looked(shared: SharedChatLog, hours: Hours) -> list[str]:
    """The ids that a process shows, read anew."""
    hours.now += 2
    await shared.refresh()
    return [row["id"] for row in shared.rows()]


async def test_each_process_shows_the_chats_of_both(tmp_path: Path) -> None:
    hours = Hours()
    stores = [SqliteStore(tmp_path / "store.db", b"secret") for _ in range(2)]
    for store in stores:
        await store.open()
    one, other = (process(store, hours) for store in stores)

    one.own.add(finished(tokens_after=40))
    other.own.add(finished(tokens_after=30))
    one.own.add(finished())
    await one.write()
    await other.write()

    expected = [f"{one.own.worker}-0", f"{other.own.worker}-0", f"{one.own.worker}-1"]
    assert await looked(one, hours) == await looked(other, hours) == expected
    assert one.totals == other.totals
    assert (one.totals.chats, one.totals.saved, one.workers) == (3, 130, 2)
    assert one.since == other.since
    for store in stores:
        await store.close()


async def test_a_process_that_starts_anew_shows_what_the_last_one_had() -> None:
    store, hours = MemoryStore(b"secret"), Hours()
    before = process(store, hours)
    before.add(finished())
    await before.close()

    after = process(store, hours)

    assert await looked(after, hours) == [f"{before.own.worker}-0"]


async def test_what_is_written_later_is_read_later_and_nothing_twice() -> None:
    store, hours = MemoryStore(b"secret"), Hours()
    one, other = process(store, hours), process(store, hours)
    for count in (1, PAGE_ROWS, 3, 2 * PAGE_ROWS):
        for _ in range(count):
            one.own.add(finished())
        await one.write()

        assert await looked(other, hours) == [row["id"] for row in one.own.rows()]


async def test_more_than_the_ring_holds_is_shown_from_its_newest_on() -> None:
    store, hours = MemoryStore(b"secret"), Hours()
    one, other = process(store, hours), process(store, hours)
    one.own.add(finished())
    await one.write()
    await looked(other, hours)

    for _ in range(2 * ROWS):
        one.own.add(finished())
    await one.write()

    shown = await looked(other, hours)
    assert shown[-1] == f"{one.own.worker}-{2 * ROWS}"
    assert len(shown) <= ROWS


async def test_a_store_that_does_not_answer_makes_nobody_forget() -> None:
    store, hours = MemoryStore(b"secret"), Hours()
    one, other = process(store, hours), process(store, hours)
    one.own.add(finished())
    await one.write()
    before = await looked(other, hours)

    await store.close()

    assert await looked(other, hours) == before == [f"{one.own.worker}-0"]


async def test_nothing_new_is_nothing_written() -> None:
    store, hours = Counting(), Hours()
    one = process(store, hours)
    one.own.add(finished())

    await one.write()
    written = store.puts
    await one.write()

    assert store.puts == written


async def test_the_store_is_read_no_more_often_than_it_is_written() -> None:
    store, hours = Counting(), Hours()
    one = process(store, hours)

    for _ in range(5):
        await one.refresh()

    assert store.gets == 1


async def test_details_are_found_whoever_had_the_chat() -> None:
    store, hours = MemoryStore(b"secret"), Hours()
    one, other = process(store, hours), process(store, hours)
    one.own.add(finished(detail=b'{"before":[]}'))
    one.own.add(finished())
    await one.write()

    for shared in (one, other):
        assert await shared.detail(f"{one.own.worker}-0") == b'{"before":[]}'
        assert await shared.detail(f"{one.own.worker}-1") is None


@pytest.mark.parametrize("name", ["", "-", "abc", "abc-", "abc-x", "abc-1", "abc-" + "9" * 40])
async def test_details_of_no_chat_are_nothing(name: str) -> None:
    assert await process(MemoryStore(b"secret"), Hours()).detail(name) is None


async def test_a_page_has_only_as_many_details_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_history, "PAGE_DETAIL_BYTES", 5)
    store, hours = MemoryStore(b"secret"), Hours()
    one, other = process(store, hours), process(store, hours)
    for _ in range(3):
        one.own.add(finished(detail=b"{}"))
    await one.write()

    kept = [await other.detail(f"{one.own.worker}-{number}") for number in range(3)]

    assert kept == [None, b"{}", b"{}"]


async def test_a_process_whose_chair_was_taken_takes_another() -> None:
    store, hours = MemoryStore(b"secret"), Hours()
    one, other = process(store, hours), process(store, hours)
    one.own.add(finished())
    await one.write()
    chairs = [one._slot_key(number) for number in range(SLOTS)]
    (mine,) = await store.get_many(SLOT, chairs)
    theirs = Head("thief", 0, hours(), hours(), {})
    await store.put(SLOT, mine, orjson.dumps(theirs._asdict()), 60)

    await one.write()

    assert await looked(other, hours) == [f"{one.own.worker}-0"]


async def test_what_the_store_refused_is_written_again() -> None:
    store, hours = Refusing(), Hours()
    one, other = process(store, hours), process(store, hours)
    one.own.add(finished())
    await one.write()

    store.refuses = False
    await one.write()

    assert await looked(other, hours) == [f"{one.own.worker}-0"]


async def test_what_cannot_be_read_lies_on_nobodys_chair() -> None:
    store, hours = MemoryStore(b"secret"), Hours()
    one = process(store, hours)
    await store.put(SLOT, one._slot_key(3), b"[]", 60)
    await store.put(SLOT, one._slot_key(4), b"not json", 60)

    assert await looked(one, hours) == []


def test_the_chair_left_longest_ago_is_taken_when_all_are() -> None:
    heads = [Head(f"w{n}", 0, 100.0 - n % 7, 0.0, {}) for n in range(SLOTS)]

    assert free_slot(list(heads), "new") == 6
    assert free_slot([heads[0], None, heads[1]], "new") == 1
    assert free_slot([heads[0], None, heads[1]], "w1") == 2


async def test_the_rest_is_written_at_the_end_unless_that_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_behind, "CLOSE_SECONDS", 0.01)
    store = Stuck()
    one = process(store, Hours())
    one.own.add(finished())

    await one.close()

    assert store.puts == 1


async def test_new_chats_are_written_behind() -> None:
    store = Counting()
    one = SharedChatLog(store, ChatHistory(), write_seconds=0.001)

    one.add(finished())
    await eventually(lambda: store.puts >= 2)

    await one.close()


async def test_a_chat_that_ends_while_the_others_are_written_needs_no_other_to_be_written() -> None:
    store = Counting()
    one = SharedChatLog(store, ChatHistory(), write_seconds=0.001)

    def add_another() -> None:
        if store.gets == 2:  # the slot is being read back
            one.add(finished())

    store.when_read = add_another
    one.add(finished())
    await eventually(lambda: one._written == 2)

    await one.close()


class Counting(MemoryStore):
    """A store that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(b"secret")
        self.gets = self.puts = 0
        self.when_read: Callable[[], None] = lambda: None

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        self.gets += 1
        self.when_read()
        return await super().get_many(kind, keys)

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        self.puts += 1
        return await super().put(kind, key, value, ttl_seconds, owner)


class Refusing(MemoryStore):
    """A store that keeps nothing until it is told to."""

    refuses = True

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        return not self.refuses and await super().put(kind, key, value, ttl_seconds, owner)


class Stuck(Counting):
    """A store that never comes back."""

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        await super().put(kind, key, value, ttl_seconds, owner)
        await asyncio.sleep(60)
        return False
