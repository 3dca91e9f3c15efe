"""Leases in a SQLite file: its clock, its troubles, and processes that die over it."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from chat_proxy.store.purge_selection import Selection
from chat_proxy.store.sqlite.lease import LEASE_KIND
from chat_proxy.store.sqlite.schema import INSERT
from chat_proxy.store.sqlite.store import SqliteStore
from tests.support.clock import own_time
from tests.support.command import ROOT, environment
from tests.unit.store.kept import Clock
from tests.unit.store.places import locked

pytestmark = pytest.mark.anyio

HOLDER = """
import asyncio, sys
from pathlib import Path
from tests.support.clock import own_time
from chat_proxy.store.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]), wait_seconds=10)
    await store.open()
    for number in range(int(sys.argv[2])):
        lease = await store.lease(b"%d" % number, float(sys.argv[3]))
        print(number if lease else "", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


def holder(path: Path, count: int, seconds: float) -> "subprocess.Popen[str]":
    """A process that takes leases, prints those it got and keeps them until it is killed."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), str(count), str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment({}),
        cwd=ROOT,
    )


def told(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def heard() -> list[tuple[str, str]]:
    return []


@pytest.fixture
async def store(
    tmp_path: Path, clock: Clock, heard: list[tuple[str, str]]
) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(
        tmp_path / "store.db",
        clock=clock,
        notice=lambda operation, reason: heard.append((operation, reason)),
    )
    await store.open()
    yield store
    await store.close()


def rows_in(path: Path) -> int:
    with closing(sqlite3.connect(path)) as other:
        (count,) = other.execute("SELECT count(*) FROM rows").fetchone()
    return int(count)


async def test_processes_that_ask_at_once_get_every_lease_once(tmp_path: Path) -> None:
    processes = [holder(tmp_path / "store.db", 50, 60) for _ in range(3)]
    try:
        answers = await asyncio.gather(
            *(asyncio.to_thread(told, process, 50) for process in processes)
        )
    finally:
        for process in processes:
            process.kill()
            process.communicate()

    assert sorted(int(it) for answer in answers for it in answer if it) == list(range(50))


async def test_a_killed_holder_loses_its_lease(tmp_path: Path) -> None:
    """FAULTS E3."""
    store = SqliteStore(tmp_path / "store.db", wait_seconds=5)
    await store.open()
    process = holder(tmp_path / "store.db", 1, 0.5)
    try:
        assert told(process, 1) == ["0"]
    finally:
        process.kill()
        process.communicate()

    await asyncio.sleep(0.6)

    assert await store.lease(b"0", 10) is not None
    await store.close()


async def test_a_clock_that_was_set_back_does_not_prolong_a_lease(
    store: SqliteStore, clock: Clock
) -> None:
    await store.lease(b"key", 10)
    clock.now -= 3_600

    assert await store.lease(b"key", 10) is not None


async def test_a_lease_shorter_than_a_second_ends_in_time(store: SqliteStore, clock: Clock) -> None:
    await store.lease(b"key", 0.2)
    clock.now += 0.1
    during = await store.lease(b"key", 10)
    clock.now += 0.15

    assert during is None
    assert await store.lease(b"key", 10) is not None


async def test_a_locked_file_gives_every_lease_and_nobody_waits_long(
    store: SqliteStore, tmp_path: Path, heard: list[tuple[str, str]]
) -> None:
    """Work done twice is better than work not done."""
    held = await store.lease(b"key", 10)
    assert held is not None

    with locked(tmp_path / "store.db"):
        started = own_time()
        lease = await store.lease(b"key", 10)
        renewed = await held.renew()
        seconds = own_time() - started

    assert lease is not None
    assert renewed
    assert seconds < 1
    assert {operation for operation, _ in heard} == {"lease"}
    assert not store.is_in_trouble


async def test_the_loop_goes_on_while_a_lease_waits_for_the_file(
    store: SqliteStore, tmp_path: Path
) -> None:
    ticks = 0
    with locked(tmp_path / "store.db"):
        waiting = asyncio.create_task(store.lease(b"key", 10))
        while not waiting.done():
            await asyncio.sleep(0.01)
            ticks += 1

    assert ticks >= 5


async def test_a_closed_store_gives_every_lease(store: SqliteStore) -> None:
    await store.lease(b"key", 10)
    await store.close()

    assert await store.lease(b"key", 10) is not None


async def test_a_foreign_row_holds_no_lease(store: SqliteStore, tmp_path: Path) -> None:
    """FAULTS D9: only this deployment can write rows."""
    with closing(sqlite3.connect(tmp_path / "store.db")) as other:
        other.execute(INSERT, (LEASE_KIND, b"key", 2**40, b"s" * 32, None, 0, b"x" * 32))
        other.commit()

    assert await store.lease(b"key", 10) is not None
    assert await store.lease(b"key", 10) is None


async def test_a_released_lease_leaves_no_row(store: SqliteStore, tmp_path: Path) -> None:
    lease = await store.lease(b"key", 10)
    assert lease is not None
    during = rows_in(tmp_path / "store.db")

    await lease.release()

    assert (during, rows_in(tmp_path / "store.db")) == (1, 0)


async def test_the_purge_of_a_tenant_leaves_leases(store: SqliteStore) -> None:
    """A lease holds nothing of a conversation."""
    await store.lease(b"key", 10)

    await store.purge(Selection(tenant="a" * 64))

    assert await store.lease(b"key", 10) is None
