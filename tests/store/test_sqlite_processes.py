"""Several processes on one SQLite file, and processes that are killed over it."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from app.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio
DAY = 86_400.0
KILLS = 20

WRITER = """
import asyncio, sys
from pathlib import Path
from app.store.sqlite import SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]), wait_seconds=10)
    await store.open()
    for number in range(int(sys.argv[3])):
        key = f"{sys.argv[2]}-{number}".encode()
        if await store.put("kind", key, key * 200, 86_400):
            print(key.decode(), flush=True)
    sys.stdin.read()
    await store.close()

asyncio.run(main())
"""

FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from app.store.sqlite import SqliteStore

async def main():
    heard = []
    store = SqliteStore(Path(sys.argv[1]), notice=lambda *said: heard.append(said), wait_seconds=10)
    await store.open()
    await store.put("kind", b"first", b"1", 86_400)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    kept = [await store.put("kind", b"%d" % n, bytes(100_000), 86_400) for n in range(10)]
    assert not all(kept), kept
    assert heard and {operation for operation, _ in heard} == {"put"}, heard
    names = [b"first", *(b"%d" % n for n in range(10))]
    assert len(await store.get_many("kind", names)) == 1 + sum(kept)
    await store.close()

asyncio.run(main())
"""


@contextmanager
def writer(path: Path, name: str, count: int) -> Iterator["subprocess.Popen[str]"]:
    """A process that puts rows and tells of each one that is kept."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def told(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


async def test_what_one_process_puts_another_gets(tmp_path: Path) -> None:
    """The secret beside the file is shared, so the seals hold."""
    store = SqliteStore(tmp_path / "store.db")
    await store.open()

    with writer(tmp_path / "store.db", "theirs", 3) as process:
        names = [name.encode() for name in told(process, 3)]
        mine = await store.put("kind", b"mine", b"1", DAY)
        found = await store.get_many("kind", names)

    assert mine
    assert found == {name: name * 200 for name in names}
    await store.close()


@pytest.mark.timeout(120)
async def test_no_row_that_was_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    """FAULTS D6."""
    path = tmp_path / "store.db"
    acknowledged: set[str] = set()
    for kill in range(KILLS):
        with writer(path, str(kill), 1_000_000) as process:
            acknowledged.update(told(process, 1 + 7 * kill))
            os.kill(process.pid, signal.SIGKILL)
            assert process.stdout is not None
            rest = process.stdout.read()
        acknowledged.update(line for line in rest.split("\n")[:-1] if line)

    with closing(sqlite3.connect(path)) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
    store = SqliteStore(path, wait_seconds=10)
    await store.open()
    names = [name.encode() for name in acknowledged]
    found = await store.get_many("kind", names)
    await store.close()
    assert verdict == "ok"
    assert len(names) > KILLS
    assert set(found) == set(names)


def test_a_disk_that_takes_no_more_costs_rows_and_nothing_else(tmp_path: Path) -> None:
    """FAULTS D3."""
    subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path / "store.db")], check=True)
