"""The SQLite file stays within its bounds: its size, its log, and clocks that jump."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from chat_proxy.store.base import CLOCK_SLACK, MAX_TTL_SECONDS, Capacity
from chat_proxy.store.sqlite.store import SWEEP_EVERY, SqliteStore

pytestmark = pytest.mark.anyio
DAY = 86_400.0
KIB = 1024


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Bounded:
    """A store in a small file, its clock, and what it complained about."""

    def __init__(self, folder: Path, max_bytes: int = 200 * KIB) -> None:
        self.path = folder / "store.db"
        self.clock = Clock()
        self.heard: list[tuple[str, str]] = []
        self.store = SqliteStore(
            self.path,
            capacity=Capacity(max_bytes),
            notice=lambda operation, reason: self.heard.append((operation, reason)),
            clock=self.clock,
            wait_seconds=20,
        )

    async def fill(self, ttl_seconds: float = DAY) -> int:
        """Put rows of 10 KiB until one is refused; return how many were kept."""
        count = 0
        while await self.store.put("kind", b"%d" % count, b"x" * 10 * KIB, ttl_seconds):
            count += 1
        return count

    def keys(self) -> set[bytes]:
        """What lies in the file, expired or not."""
        connection = sqlite3.connect(self.path)
        keys = {key for (key,) in connection.execute("SELECT key FROM rows")}
        connection.close()
        return keys

    async def sweep(self) -> None:
        """Put so often that a sweep is due."""
        for _ in range(SWEEP_EVERY):
            await self.store.put("other", b"again", b"", DAY)


@pytest.fixture
async def bounded(tmp_path: Path) -> Bounded:
    made = Bounded(tmp_path)
    await made.store.open()
    return made


async def test_a_full_store_refuses_and_is_still_read(bounded: Bounded) -> None:
    """FAULTS D3, D12."""
    count = await bounded.fill()

    found = await bounded.store.get_many("kind", [b"%d" % n for n in range(count)])

    assert 10 < count < 20
    assert len(found) == count
    assert bounded.heard == [("put", "full")]
    await bounded.store.close()
    assert bounded.path.stat().st_size <= 200 * KIB


async def test_a_full_store_still_takes_what_fits(bounded: Bounded) -> None:
    await bounded.fill()

    assert await bounded.store.put("kind", b"0", b"small", DAY)
    assert await bounded.store.get_many("kind", [b"0"]) == {b"0": b"small"}
    await bounded.store.close()


async def test_a_full_store_takes_rows_again_when_others_expire(bounded: Bounded) -> None:
    """FAULTS D3."""
    count = await bounded.fill()

    bounded.clock.now += DAY + 1

    assert await bounded.store.put("kind", b"new", b"x" * 10 * KIB, DAY)
    assert bounded.keys() == {b"new"}
    assert count > 1
    await bounded.store.close()


async def test_a_limit_below_one_page_is_a_limit_too(tmp_path: Path) -> None:
    tiny = Bounded(tmp_path, max_bytes=1)
    await tiny.store.open()

    assert await tiny.fill() == 0
    await tiny.store.close()


@pytest.mark.parametrize("jump", [DAY, -DAY])
async def test_a_clock_that_jumps_a_day_deletes_nothing(bounded: Bounded, jump: float) -> None:
    """FAULTS D13."""
    await bounded.store.put("kind", b"short", b"1", 60)
    await bounded.store.put("kind", b"long", b"2", MAX_TTL_SECONDS)

    bounded.clock.now += jump
    await bounded.sweep()
    bounded.clock.now -= jump

    found = await bounded.store.get_many("kind", [b"short", b"long"])
    assert found == {b"short": b"1", b"long": b"2"}
    await bounded.store.close()


async def test_what_expired_long_ago_is_deleted(bounded: Bounded) -> None:
    """FAULTS F21."""
    await bounded.store.put("kind", b"old", b"a secret nobody keeps", 60)

    bounded.clock.now += 60 + CLOCK_SLACK
    await bounded.sweep()

    assert bounded.keys() == {b"again"}
    await bounded.store.close()
    assert b"a secret nobody keeps" not in bounded.path.read_bytes()


async def test_a_row_written_by_a_wrong_clock_does_not_stay_for_ever(bounded: Bounded) -> None:
    """FAULTS D13."""
    bounded.clock.now += 10 * 366 * DAY
    await bounded.store.put("kind", b"future", b"1", DAY)
    bounded.clock.now -= 10 * 366 * DAY

    await bounded.sweep()

    assert bounded.keys() == {b"again"}
    await bounded.store.close()


async def test_nothing_is_kept_longer_than_anything_may(bounded: Bounded) -> None:
    await bounded.store.put("kind", b"a", b"1", 100 * MAX_TTL_SECONDS)

    bounded.clock.now += MAX_TTL_SECONDS + 1

    assert await bounded.store.get_many("kind", [b"a"]) == {}
    await bounded.store.close()


async def test_writes_do_not_pile_up_before_a_locked_file(tmp_path: Path) -> None:
    """FAULTS D1: what was given up is not written later."""
    store = SqliteStore(tmp_path / "store.db", wait_seconds=0.1)
    await store.open()
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    kept = await asyncio.gather(*(store.put("kind", b"%d" % n, b"", DAY) for n in range(20)))
    await asyncio.sleep(0.3)
    other.execute("ROLLBACK")
    other.close()
    await asyncio.sleep(0.1)

    assert kept == [False] * 20
    assert await store.get_many("kind", [b"%d" % n for n in range(2, 20)]) == {}
    await store.close()
