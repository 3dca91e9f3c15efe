"""What memory and the SQLite file do beside the contract, and FAULTS D for the file."""

import asyncio
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.store.base import Store, StoreUnavailable
from chat_proxy.store.factory import FailOpenStore, store_of
from chat_proxy.store.memory import ROW_BYTES, MemoryStore
from chat_proxy.store.sqlite.file import read_or_create_secret
from chat_proxy.store.sqlite.store import SqliteStore
from tests.support.clock import own_time

pytestmark = pytest.mark.anyio
DAY = 86_400.0


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Notices:
    """What a store complained about."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def __call__(self, operation: str, reason: str) -> None:
        self.heard.append((operation, reason))


def sqlite_store(path: Path, **options: Any) -> SqliteStore:
    return SqliteStore(path / "data" / "store.db", **options)


def fallen_back(path: Path, secret: str | None) -> FailOpenStore:
    """A store whose place cannot be had."""
    blocked = path / "blocked"
    blocked.write_text("a file where the folder should be")
    store = sqlite_store(blocked, secret=secret.encode() if secret else None)
    return FailOpenStore(store, required=False, notice=Notices(), secret=secret)


async def test_small_rows_weigh_more_than_nothing_in_memory() -> None:
    store = MemoryStore(max_bytes=100 * ROW_BYTES)

    for number in range(1_000):
        await store.put("kind", b"%d" % number, b"", DAY)

    assert len(await store.get_many("kind", [b"%d" % n for n in range(1_000)])) == 100


async def test_addresses_survive_a_restart(tmp_path: Path) -> None:
    """BUGS 37."""
    first, second = sqlite_store(tmp_path), sqlite_store(tmp_path)
    await first.open()
    await second.open()

    assert first.address(b"a") == second.address(b"a")
    await first.close()
    await second.close()


async def test_every_kind_of_store_gives_the_same_address_by_the_same_secret(
    tmp_path: Path,
) -> None:
    stores = [
        store_of("memory:", "secret", Notices()),
        store_of(f"sqlite:///{tmp_path}/x.db", "secret", Notices()),
        store_of("redis://127.0.0.1", "secret", Notices()),
        fallen_back(tmp_path, "secret"),
    ]
    for store in (stores[0], stores[1], stores[3]):
        await store.open()

    assert len({store.address(b"a") for store in stores}) == 1
    for store in stores:
        await store.close()


async def test_without_a_secret_nobody_else_can_give_the_address(tmp_path: Path) -> None:
    stores: list[Store] = [
        MemoryStore(),
        MemoryStore(),
        sqlite_store(tmp_path),
        fallen_back(tmp_path, None),
    ]
    for store in stores:
        await store.open()

    assert len({store.address(b"a") for store in stores}) == 4
    for store in stores:
        await store.close()


async def test_memory_forgets_what_was_used_longest_ago() -> None:
    store = MemoryStore(max_bytes=2 * (5 + ROW_BYTES))
    for key in (b"a", b"b"):
        await store.put("kind", key, b"12345", DAY)
    await store.get_many("kind", [b"a"])

    await store.put("kind", b"c", b"12345", DAY)

    assert set(await store.get_many("kind", [b"a", b"b", b"c"])) == {b"a", b"c"}
    assert not await store.put("kind", b"d", b"x" * 1_000, DAY)


async def test_rows_survive_a_restart(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path)
    await store.open()
    await store.put("kind", b"a", b"1", DAY)
    await store.close()

    again = sqlite_store(tmp_path)
    await again.open()

    assert await again.get_many("kind", [b"a"]) == {b"a": b"1"}
    await again.close()


async def test_the_files_are_the_owner_s_alone(tmp_path: Path) -> None:
    """FAULTS F21."""
    store = sqlite_store(tmp_path)
    await store.open()
    await store.put("kind", b"a", b"1", DAY)

    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "data").iterdir()}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    await store.close()


async def test_a_row_from_elsewhere_is_a_miss(tmp_path: Path) -> None:
    """FAULTS D9."""
    notices = Notices()
    store = sqlite_store(tmp_path, notice=notices)
    await store.open()
    await store.put("kind", b"a", b"1", DAY)
    await store.put("kind", b"b", b"2", DAY)
    with sqlite3.connect(tmp_path / "data" / "store.db") as other:
        other.execute("UPDATE rows SET value = x'33' WHERE key = x'61'")
    other.close()

    assert await store.get_many("kind", [b"a", b"b"]) == {b"b": b"2"}
    assert notices.heard == [("get", "integrity")]
    await store.close()


async def test_a_file_locked_by_another_process_costs_the_bound_and_no_more(tmp_path: Path) -> None:
    """FAULTS D1, D2."""
    notices = Notices()
    store = sqlite_store(tmp_path, notice=notices, wait_seconds=0.1)
    await store.open()
    await store.put("kind", b"a", b"1", DAY)
    other = sqlite3.connect(tmp_path / "data" / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    start = own_time()

    kept = await store.put("kind", b"b", b"2", DAY)
    found = await store.get_many("kind", [b"a"])

    assert not kept
    assert found == {b"a": b"1"}
    assert own_time() - start < 1
    assert notices.heard[0][0] == "put"
    other.execute("ROLLBACK")
    other.close()
    await asyncio.sleep(0.2)
    assert await store.put("kind", b"b", b"2", DAY)
    await store.close()


async def test_a_damaged_file_is_set_aside_at_start(tmp_path: Path) -> None:
    """FAULTS D4."""
    place = tmp_path / "data"
    place.mkdir()
    (place / "store.db").write_bytes(b"this is no database" * 100)
    notices = Notices()
    store = sqlite_store(tmp_path, notice=notices, clock=Clock())

    await store.open()

    assert await store.put("kind", b"a", b"1", DAY)
    assert (place / "store.db.corrupt-1000000").read_bytes().startswith(b"this is no database")
    assert notices.heard == [("open", "corrupt")]
    await store.close()


async def test_a_file_damaged_at_run_time_is_left_alone(tmp_path: Path) -> None:
    """FAULTS D4."""
    store = sqlite_store(tmp_path)
    await store.open()
    await store.put("kind", b"a", b"1", DAY)
    await store.close()
    path = tmp_path / "data" / "store.db"
    again = sqlite_store(tmp_path)
    await again.open()
    path.write_bytes(b"garbage" * 2_000)

    first = await again.get_many("kind", [b"a"])
    second = await again.put("kind", b"b", b"2", DAY)

    assert (first, second) == ({}, False)
    await again.close()


async def test_two_starters_set_a_damaged_file_aside_once(tmp_path: Path) -> None:
    """FAULTS D4: the second one must not take the first one's new file for the damaged one."""
    place = tmp_path / "data"
    place.mkdir()
    (place / "store.db").write_bytes(b"this is no database" * 100)
    stores = [sqlite_store(tmp_path, clock=Clock()) for _ in range(4)]

    await asyncio.gather(*(store.open() for store in stores))

    (aside,) = place.glob("*.corrupt-*")
    assert aside.read_bytes().startswith(b"this is no database")
    assert await stores[0].put("kind", b"a", b"1", DAY)
    assert await stores[3].get_many("kind", [b"a"]) == {b"a": b"1"}
    for store in stores:
        await store.close()


async def test_a_damaged_file_that_cannot_be_moved_is_no_crash(tmp_path: Path) -> None:
    """FAULTS D4, D5."""
    place = tmp_path / "data"
    place.mkdir()
    (place / "store.db").write_bytes(b"this is no database" * 100)
    (place / "store.db.corrupt-1000000").mkdir()
    store = sqlite_store(tmp_path, clock=Clock())

    with pytest.raises(StoreUnavailable):
        await store.open()

    await store.close()


async def test_a_file_that_another_process_holds_for_good_is_unavailable(tmp_path: Path) -> None:
    """FAULTS D1, D5."""
    place = tmp_path / "data"
    place.mkdir()
    other = sqlite3.connect(place / "store.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    store = sqlite_store(tmp_path, wait_seconds=0.01)

    with pytest.raises(StoreUnavailable, match="locked"):
        await store.open()

    other.execute("ROLLBACK")
    other.close()
    await store.close()


async def test_an_empty_secret_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir()
    (place / "store.db.secret").write_bytes(b"")
    store = sqlite_store(tmp_path)

    with pytest.raises(StoreUnavailable, match="too short"):
        await store.open()

    await store.close()


async def test_a_closed_store_misses(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path)
    await store.open()
    await store.put("kind", b"a", b"1", DAY)
    await store.close()

    assert await store.get_many("kind", [b"a"]) == {}
    assert not await store.put("kind", b"a", b"1", DAY)


async def test_a_newer_file_is_refused_and_kept(tmp_path: Path) -> None:
    """FAULTS D10."""
    place = tmp_path / "data"
    place.mkdir()
    with sqlite3.connect(place / "store.db") as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    before = (place / "store.db").read_bytes()
    store = sqlite_store(tmp_path)

    with pytest.raises(StoreUnavailable, match="newer version"):
        await store.open()

    assert (place / "store.db").read_bytes() == before
    await store.close()


async def test_a_place_that_cannot_be_written_falls_back_to_memory(tmp_path: Path) -> None:
    """FAULTS D5."""
    (tmp_path / "data").write_text("a file where the folder should be")
    notices = Notices()

    store = FailOpenStore(sqlite_store(tmp_path), required=False, notice=notices)
    await store.open()

    assert store.is_degraded
    assert await store.put("kind", b"a", b"1", DAY)
    assert await store.get_many("kind", [b"a"]) == {b"a": b"1"}
    assert notices.heard == [("open", "unavailable")]
    await store.close()


async def test_a_required_store_that_cannot_be_had_stops_the_start(tmp_path: Path) -> None:
    """FAULTS D5."""
    (tmp_path / "data").write_text("a file where the folder should be")
    store = FailOpenStore(sqlite_store(tmp_path), required=True, notice=Notices())

    with pytest.raises(StoreUnavailable):
        await store.open()


def test_two_starters_agree_on_one_secret(tmp_path: Path) -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(read_or_create_secret(tmp_path / "store.db")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(found)) == 1
    assert len(found[0]) == 32
    assert [path.name for path in tmp_path.iterdir()] == ["store.db.secret"]


@pytest.mark.parametrize("url", ["sqlite:///", "redis://host", "file.db", ""])
def test_an_unknown_store_is_refused(url: str) -> None:
    with pytest.raises(StoreUnavailable):
        store_of(url, None, Notices())


def test_urls_name_their_stores(tmp_path: Path) -> None:
    assert isinstance(store_of("memory:", None, Notices()), MemoryStore)
    assert isinstance(store_of(f"sqlite:///{tmp_path}/x.db", "s", Notices()), SqliteStore)


async def test_a_write_that_fails_half_way_does_not_stop_the_next(tmp_path: Path) -> None:
    notices = Notices()
    store = sqlite_store(tmp_path, notice=notices)
    await store.open()
    other = sqlite3.connect(tmp_path / "data" / "store.db", isolation_level=None)
    other.execute("CREATE TRIGGER no BEFORE INSERT ON rows BEGIN SELECT RAISE(ABORT, 'no'); END")

    assert not await store.put("kind", b"a", b"1", DAY)

    other.execute("DROP TRIGGER no")
    other.close()
    assert await store.put("kind", b"a", b"1", DAY)
    assert notices.heard == [("put", "constraint_trigger")]
    await store.close()


async def test_an_error_of_another_kind_is_no_reason_to_sweep(tmp_path: Path) -> None:
    notices = Notices()
    store = sqlite_store(tmp_path, notice=notices)
    await store.open()
    await store.put("kind", b"a", b"1", DAY)
    with sqlite3.connect(tmp_path / "data" / "store.db") as other:
        other.execute("DROP TABLE rows")
    other.close()

    assert not await store.put("kind", b"b", b"2", DAY)
    assert notices.heard == [("put", "error")]
    await store.close()
