"""Time of a lookup beside the originals of folded messages, which have megabytes."""

import asyncio
import os
import sys
import time
from pathlib import Path

from bench.progress import tell
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.session.offloads import KIND as OFFLOAD
from chat_proxy.proxy.session.recognition.checkpoints import KIND as CHECKPOINT
from chat_proxy.store.sqlite.store import SqliteStore

COUNTS = (0, 1, 10, 100)
ORIGINAL_BYTES = 1_900_000
KEYS = 1_300
"""What a conversation of 2 MB asks for at once: its seams."""
CHECKPOINTS = 200
ROUNDS = 5
LIFE_SECONDS = 86_400.0


def measure(folder: Path) -> dict[int, float]:
    """Return the milliseconds of one lookup by the number of originals, best round."""
    return {count: asyncio.run(_cost(folder / f"{count}-originals.db", count)) for count in COUNTS}


async def _cost(path: Path, count: int) -> float:
    tell(f"writing {count} originals")
    store = SqliteStore(path, wait_seconds=60)
    await store.open()
    for _ in range(CHECKPOINTS):
        await _put(store, CHECKPOINT, Checkpoint(20, Treatments(), 5_000).to_bytes())
    for _ in range(count):
        await _put(store, OFFLOAD, os.urandom(ORIGINAL_BYTES))
    best = min([await _lookup(store) for _ in range(ROUNDS)])
    await store.close()
    return best * 1e3


async def _put(store: SqliteStore, kind: str, value: bytes) -> None:
    if not await store.put(kind, os.urandom(32), value, LIFE_SECONDS, "bench"):
        sys.exit("the store took no more")


async def _lookup(store: SqliteStore) -> float:
    """Return the seconds of two lookups of keys that are not there, which pass all there is."""
    keys = [os.urandom(32) for _ in range(KEYS)]
    start = time.perf_counter()
    for kind in (CHECKPOINT, OFFLOAD):
        await store.get_many(kind, keys)
    return time.perf_counter() - start
