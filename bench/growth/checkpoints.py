"""CPU of a lookup as the store fills: a conversation asks for all of its seams at once."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from bench.progress import tell
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.session.checkpoints import KIND, Checkpoints, Scope
from chat_proxy.store.base import Seal
from chat_proxy.store.sqlite.store import _INSERT, SqliteStore

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
SEAMS = 50
LOOKUPS = 200
ROUNDS = 5
SECRET = b"growth".ljust(32, b".")
TENANT = "bench"
LIFE_SECONDS = 86_400
ROW = Checkpoint(20, Treatments(), 5_000).to_bytes()

Row = tuple[str, bytes, bytes, int, bytes, str, int]


def measure(folder: Path) -> dict[int, float]:
    """Return the CPU microseconds of one lookup by the number of checkpoints, best round."""
    return {size: asyncio.run(_cost(folder / f"{size}.db", size)) for size in SIZES}


async def _cost(path: Path, size: int) -> float:
    tell(f"writing {size} checkpoints")
    store = SqliteStore(path, SECRET, max_bytes=4 * 1024**3)
    await store.open()
    _fill(path, size)
    best = float("inf")
    for _ in range(ROUNDS):
        tell(f"looking up among {size} checkpoints")
        best = min(best, await _round(Checkpoints(store)))
    await store.close()
    return best * 1e6


async def _round(checkpoints: Checkpoints) -> float:
    """Return the CPU seconds of a lookup for a history that this process has not seen."""
    scope = Scope(TENANT, b"policy")
    seams = tuple(range(1, SEAMS + 1))
    histories = [_links(os.urandom(16)) for _ in range(LOOKUPS)]
    before = time.process_time()
    for links in histories:
        await checkpoints.find(scope, seams, links)
    return (time.process_time() - before) / LOOKUPS


def _links(seed: bytes) -> list[bytes]:
    return [sha256(seed + bytes([number])).digest() for number in range(SEAMS)]


def _fill(path: Path, size: int) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.executemany(_INSERT, _rows(size))
    # A store that fills in the course of weeks has no such log.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _rows(size: int) -> Iterator[Row]:
    seal = Seal(SECRET)
    now = int(time.time())
    expires = now + LIFE_SECONDS
    for _ in range(size):
        key = os.urandom(32)
        yield KIND, key, ROW, expires, seal.of(KIND, key, ROW, expires), TENANT, now
