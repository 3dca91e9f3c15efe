"""Several processes on one SQLite file; those that are killed over it are in tests/faults."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chat_proxy.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio
DAY = 86_400.0

WRITER = """
import asyncio, sys
from pathlib import Path
from chat_proxy.store.sqlite.store import SqliteStore

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
