"""CPU of a lookup as the store fills: a conversation asks for all of its seams at once.

The history is new to the store, so that its anchors are looked up too.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from bench.progress import tell
from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.session.recognition import anchors
from chat_proxy.proxy.session.recognition.checkpoints import KIND, Checkpoints
from chat_proxy.proxy.session.recognition.history import History, hashed_history
from chat_proxy.proxy.session.recognition.scope import ADDRESS_BYTES, Scope
from chat_proxy.store.base import Capacity, Seal
from chat_proxy.store.sqlite.schema import INSERT
from chat_proxy.store.sqlite.store import SqliteStore

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
SEAMS = 50
LOOKUPS = 200
ROUNDS = 5
SECRET = b"growth".ljust(32, b".")
TENANT = "bench"
LIFE_SECONDS = 86_400
ROWS = {
    KIND: Checkpoint(20, Treatments(), 5_000).to_bytes(),
    anchors.KIND: bytes(ADDRESS_BYTES),
}

Row = tuple[str, bytes, int, bytes, str, int, bytes]


def measure(folder: Path) -> dict[int, float]:
    """Return the CPU microseconds of one lookup by the number of checkpoints, best round."""
    return {size: asyncio.run(_cost(folder / f"{size}.db", size)) for size in SIZES}


async def _cost(path: Path, size: int) -> float:
    tell(f"writing {size} checkpoints")
    store = SqliteStore(path, SECRET, capacity=Capacity(4 * 1024**3))
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
    histories = [_history(os.urandom(16).hex()) for _ in range(LOOKUPS)]
    before = time.process_time()
    for history in histories:
        await checkpoints.find(scope, history, SEAMS)
    return (time.process_time() - before) / LOOKUPS


def _history(seed: str) -> History:
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": f"{seed} {at}"} for at in range(SEAMS)]
    conversation = Conversation.of(messages)
    assert conversation is not None
    return hashed_history(conversation, VolatileBlocks(()), SECRET)


def _fill(path: Path, size: int) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.executemany(INSERT, _rows(size))
    # A store that fills in the course of weeks has no such log.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _rows(size: int) -> Iterator[Row]:
    seal = Seal(SECRET)
    now = int(time.time())
    expires = now + LIFE_SECONDS
    for kind, row in ROWS.items():
        for _ in range(size):
            key = os.urandom(ADDRESS_BYTES)
            yield kind, key, expires, seal.of(kind, key, row, expires), TENANT, now, row
