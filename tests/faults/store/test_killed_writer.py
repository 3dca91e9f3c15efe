"""D6: writers that are killed, again and again, over one file."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from chat_proxy.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio

KILLS = 40

# It imports everything once, and forks a writer for each line that it is told: one writes until it
# is killed, and tells of each row that it was promised.
WRITERS = """
import asyncio, os, signal, sys
from pathlib import Path
from chat_proxy.store.sqlite.store import SqliteStore

async def write(name):
    store = SqliteStore(Path(sys.argv[1]), wait_seconds=10)
    await store.open()
    for number in range(1_000_000):
        key = f"{name}-{number}".encode()
        if await store.put("kind", key, key * 200, 86_400):
            os.write(1, key + b"\\n")

writer = 0
for line in sys.stdin:
    if line == "kill\\n":
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        os.write(1, b"killed\\n")
    elif (writer := os.fork()) == 0:
        asyncio.run(write(line.strip()))
"""


@asynccontextmanager
async def writers(path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run what starts and kills writers."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITERS, str(path), stdin=pipe, stdout=pipe
    )
    try:
        yield process
    finally:
        assert process.stdin
        process.stdin.close()
        await process.wait()


async def promised_to(process: asyncio.subprocess.Process, name: int, rows: int) -> set[bytes]:
    """Let one write so many rows and then kill it; return all rows that it was promised."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"%d\n" % name)
    promised = {(await process.stdout.readline()).strip() for _ in range(rows)}
    process.stdin.write(b"kill\n")
    while (line := await process.stdout.readline()) != b"killed\n":
        promised.add(line.strip())
    return promised


async def test_d6_no_row_that_was_acknowledged_is_lost_by_forty_kills(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    promised: set[bytes] = set()
    async with writers(path) as process:
        for kill in range(KILLS):
            promised |= await promised_to(process, kill, 1 + 2 * kill)

    with closing(sqlite3.connect(path)) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
    store = SqliteStore(path, wait_seconds=10)
    await store.open()
    found = await store.get_many("kind", list(promised))
    await store.close()
    assert verdict == "ok"
    assert len(promised) >= KILLS * KILLS
    assert found == {key: key * 200 for key in promised}
