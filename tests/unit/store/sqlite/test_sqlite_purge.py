"""Rows that are purged leave no byte in the SQLite file or beside it."""

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from chat_proxy.store.base import StoreUnavailable
from chat_proxy.store.purge_selection import Purged, Selection
from chat_proxy.store.sqlite.purge import purge_file
from chat_proxy.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio

DAY = 86_400.0
NOW = 1_800_000_000.0
SECRET = b"s" * 32
CANARY = b"canary-of-the-deleted-tenant"


def sqlite_store(folder: Path, now: float = NOW) -> SqliteStore:
    return SqliteStore(folder / "store.db", SECRET, clock=lambda: now, wait_seconds=20)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = sqlite_store(tmp_path)
    await made.open()
    yield made
    await made.close()


def files_with(folder: Path, *words: bytes) -> list[str]:
    """The files that have one of the words in them."""
    return [
        path.name for path in folder.iterdir() if any(word in path.read_bytes() for word in words)
    ]


async def test_a_purged_tenant_leaves_no_byte_while_the_store_is_open(
    store: SqliteStore, tmp_path: Path
) -> None:
    """FAULTS F21: rows of all sizes, mixed with those of others, some replaced before."""
    for number in range(300):
        value = CANARY * (1 + number * number % 700)
        await store.put("kind", b"%d" % number, value, DAY, "them")
        await store.put("kind", b"other-%d" % number, b"x" * (number * 37), DAY, "other")
        await store.put("kind", b"%d" % (number // 2), CANARY, DAY, "them")
    was_there = files_with(tmp_path, CANARY)

    purged = await store.purge(Selection(tenant="them"))

    assert set(was_there) == {"store.db", "store.db-wal"}
    assert purged.rows == 300
    assert purged.bytes >= 300 * len(CANARY)
    assert files_with(tmp_path, CANARY, b"them") == []
    others = await store.get_many("kind", [b"other-%d" % number for number in range(300)])
    assert len(others) == 300


async def test_a_row_of_unknown_owner_goes_with_anybody_and_nobody_s_with_nobody(
    store: SqliteStore,
) -> None:
    await store.put("kind", b"unknown", b"1", DAY)
    await store.put("kind", b"nobody", b"2", DAY, "")

    purged = await store.purge(Selection(tenant="them"))

    assert purged == Purged(rows=1, bytes=1)
    assert await store.get_many("kind", [b"unknown", b"nobody"]) == {b"nobody": b"2"}


async def test_rows_are_purged_by_the_time_they_were_written(tmp_path: Path) -> None:
    before, after = sqlite_store(tmp_path, NOW - 3 * DAY), sqlite_store(tmp_path)
    await before.open()
    await after.open()
    await before.put("kind", b"old", b"1", 300 * DAY, "them")
    await after.put("kind", b"new", b"2", DAY, "them")

    purged = await after.purge(Selection(before=NOW - 3 * DAY))

    assert purged.rows == 1
    assert await after.get_many("kind", [b"old", b"new"]) == {b"new": b"2"}
    await before.close()
    await after.close()


async def test_everything_goes_and_the_store_goes_on(store: SqliteStore, tmp_path: Path) -> None:
    for owner in ("one", "two", "", None):
        await store.put("kind", f"{owner}".encode(), CANARY, DAY, owner)

    purged = await store.purge(Selection())

    assert purged.rows == 4
    assert files_with(tmp_path, CANARY) == []
    assert await store.put("kind", b"new", b"1", DAY)


async def test_copies_beside_the_file_go_too(store: SqliteStore, tmp_path: Path) -> None:
    """FAULTS D4, F21: rows cannot be taken out of a damaged file."""
    (tmp_path / "store.db.corrupt-1").write_bytes(CANARY)
    (tmp_path / "store.db.v1").write_bytes(CANARY)
    os.utime(tmp_path / "store.db.v1", (NOW, NOW))
    os.utime(tmp_path / "store.db.corrupt-1", (NOW - DAY, NOW - DAY))

    by_age = await store.purge(Selection(before=NOW - 1))
    by_tenant = await store.purge(Selection(tenant="them"))

    assert by_age == by_tenant == Purged(files=1, bytes=len(CANARY))
    assert files_with(tmp_path, CANARY) == []


async def test_a_reader_that_will_not_end_makes_the_purge_say_so(
    store: SqliteStore, tmp_path: Path
) -> None:
    await store.put("kind", b"key", CANARY, DAY, "them")
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM rows").fetchall()

        with pytest.raises(StoreUnavailable, match="log could not be emptied"):
            purge_file(tmp_path / "store.db", Selection(tenant="them"), 0.1)

    await store.purge(Selection(tenant="them"))
    assert files_with(tmp_path, CANARY) == []


async def test_a_copy_that_cannot_be_deleted_makes_the_purge_say_so(
    store: SqliteStore, tmp_path: Path
) -> None:
    (tmp_path / "store.db.corrupt-1").mkdir()

    with pytest.raises(StoreUnavailable, match=r"store\.db: "):
        await store.purge(Selection())
