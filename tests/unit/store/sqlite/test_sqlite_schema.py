"""The schema of the SQLite file: keys apart from large values; older files are migrated."""

import asyncio
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from chat_proxy.store.base import Seal, StoreUnavailable
from chat_proxy.store.purge_selection import Selection
from chat_proxy.store.sqlite.schema import BACKUP_SECONDS, SCHEMA_VERSION
from chat_proxy.store.sqlite.store import SqliteStore
from tests.unit.store.places import FIRST_FORM, SECOND_FORM

pytestmark = pytest.mark.anyio

DAY = 86_400.0
NOW = 1_800_000_000.0
LATER = int(NOW + 10 * DAY)
SECRET = b"s" * 32
CANARY = b"canary-of-the-deleted-tenant"
ORIGINAL_BYTES = 1_900_000
OLD_INSERT = """INSERT OR REPLACE INTO rows (kind, key, value, expires, seal, owner, written)
    VALUES (?,?,?,?,?,?,?)"""


def sqlite_store(folder: Path, now: float = NOW) -> SqliteStore:
    return SqliteStore(folder / "store.db", SECRET, clock=lambda: now, wait_seconds=20)


def files_with(folder: Path, word: bytes) -> list[str]:
    """The files that have the word in them."""
    return [path.name for path in folder.iterdir() if word in path.read_bytes()]


def first_form(folder: Path) -> None:
    """Leave a file as the first version wrote it, with one row."""
    seal = Seal(SECRET).of("kind", b"old", CANARY, LATER)
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(FIRST_FORM)
        row = ("kind", b"old", CANARY, LATER, seal)
        connection.execute("INSERT INTO rows VALUES (?,?,?,?,?)", row)
        connection.commit()


def second_form(folder: Path, values: dict[bytes, bytes], owner: str) -> int:
    """Leave a file as the second version wrote it; return its size."""
    seal = Seal(SECRET)
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(SECOND_FORM)
        connection.executemany(
            OLD_INSERT,
            [
                ("kind", key, value, LATER, seal.of("kind", key, value, LATER), owner, int(NOW))
                for key, value in values.items()
            ],
        )
        connection.commit()
    return (folder / "store.db").stat().st_size


async def test_keys_beside_originals_are_found_within_the_time_that_a_request_waits(
    tmp_path: Path,
) -> None:
    """Issue 22, 16: the bound makes a miss of a slow lookup, and a new summary of the miss."""
    heard: list[tuple[str, str]] = []
    store = SqliteStore(tmp_path / "store.db", notice=lambda *fault: heard.append(fault))
    await store.open()
    for number in range(12):
        original = b"%d" % number * (ORIGINAL_BYTES // len(b"%d" % number))
        while not await store.put("kind", store.address(b"%d" % number), original, DAY, "them"):
            heard.clear()
    await store.put("kind", b"wanted", b"found", DAY, "them")
    others = [store.address(b"absent", b"%d" % number) for number in range(1_300)]

    found = await store.get_many("kind", [*others, b"wanted"])

    assert found == {b"wanted": b"found"}
    assert heard == []
    await store.close()


async def test_an_older_file_is_migrated_with_its_owners_and_originals_and_does_not_grow(
    tmp_path: Path,
) -> None:
    """FAULTS D10; issue 22, 16."""
    values = {b"key-%d" % number: b"%d" % number * number * 40 for number in range(1, 300)}
    values[b"original"] = bytes(ORIGINAL_BYTES)
    before_bytes = second_form(tmp_path, values, "them")
    store = sqlite_store(tmp_path)

    await store.open()
    found = await store.get_many("kind", list(values))
    await store.close()

    assert found == values
    assert (tmp_path / "store.db").stat().st_size <= before_bytes * 1.1
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with closing(sqlite3.connect(tmp_path / "store.db.v2")) as connection:
        assert connection.execute("SELECT count(*) FROM rows").fetchone() == (len(values),)
    again = sqlite_store(tmp_path)
    await again.open()
    purged = await again.purge(Selection(tenant="them"))
    assert purged.rows == len(values)
    await again.close()


async def test_a_proxy_of_the_older_version_that_still_runs_reads_and_cannot_write(
    tmp_path: Path,
) -> None:
    """FAULTS D10: a new one was started too early."""
    second_form(tmp_path, {b"old": CANARY}, "them")
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as running:
        running.execute("SELECT key FROM rows").fetchall()
        store = sqlite_store(tmp_path)
        await store.open()

        old = running.execute("SELECT value FROM rows WHERE kind = 'kind' AND key = ?", (b"old",))
        assert old.fetchone() == (CANARY,)
        with pytest.raises(sqlite3.IntegrityError):
            running.execute(OLD_INSERT, ("kind", b"old", b"", LATER, b"", "them", 0))

    assert await store.get_many("kind", [b"old"]) == {b"old": CANARY}
    await store.close()


async def test_an_older_file_is_migrated_with_its_rows_and_a_copy_of_before(tmp_path: Path) -> None:
    """FAULTS D10."""
    first_form(tmp_path)
    stores = [sqlite_store(tmp_path) for _ in range(3)]

    await asyncio.gather(*(store.open() for store in stores))

    assert await stores[0].get_many("kind", [b"old"]) == {b"old": CANARY}
    assert await stores[1].put("kind", b"new", b"1", DAY, "them")
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    backup = tmp_path / "store.db.v1"
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT value FROM rows").fetchone() == (CANARY,)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    for store in stores:
        await store.close()


async def test_a_migrated_row_goes_with_the_first_tenant_and_so_does_the_copy(
    tmp_path: Path,
) -> None:
    """FAULTS D10, F21: nobody knows whose it is."""
    first_form(tmp_path)
    store = sqlite_store(tmp_path)
    await store.open()

    await store.purge(Selection(tenant="them"))

    assert files_with(tmp_path, CANARY) == []
    await store.close()


async def test_the_copy_of_an_older_file_does_not_stay_for_ever(tmp_path: Path) -> None:
    """FAULTS F21."""
    first_form(tmp_path)
    for now in (NOW, NOW + BACKUP_SECONDS - 1):
        store = sqlite_store(tmp_path, now)
        await store.open()
        await store.close()
        assert (tmp_path / "store.db.v1").exists()

    store = sqlite_store(tmp_path, NOW + BACKUP_SECONDS)
    await store.open()

    assert not (tmp_path / "store.db.v1").exists()
    await store.close()


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    """FAULTS D10."""
    first_form(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("ALTER TABLE rows RENAME COLUMN seal TO mark")
        connection.commit()
    store = sqlite_store(tmp_path)

    with pytest.raises(StoreUnavailable, match="no such column"):
        await store.open()

    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(rows)")]
        assert columns == ["kind", "key", "value", "expires", "mark"]
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    await store.close()
