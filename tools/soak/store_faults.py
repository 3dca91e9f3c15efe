"""The store's troubles: another process holds the file, or the disk takes no more."""

import asyncio
import resource
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

LEAST_SECONDS, MOST_SECONDS = 0.1, 0.5
FULL_AT_BYTES = 4096

# A process of its own: within one process SQLite's locks are another thing.
_LOCKER = """
import sqlite3, sys, time
file = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
for line in sys.stdin:
    file.execute("BEGIN IMMEDIATE")
    time.sleep(float(line))
    file.execute("ROLLBACK")
    print("done", flush=True)
"""


class StoreFaults:
    """Makes one trouble at a time; who asks for another in the meantime gets none."""

    def __init__(self, locker: asyncio.subprocess.Process, proxy_pid: int, random: Random) -> None:
        self._locker = locker
        self._pid = proxy_pid
        self._random = random
        self._running: asyncio.Task[None] | None = None
        self.made: Counter[str] = Counter()

    def make(self) -> None:
        """Begin one."""
        if self._running is not None and not self._running.done():
            return
        seconds = self._random.uniform(LEAST_SECONDS, MOST_SECONDS)
        kind = self._random.choice(("lock", "lock", "full"))
        self.made[kind] += 1
        self._running = asyncio.create_task(
            self._lock(seconds) if kind == "lock" else self._fill(seconds)
        )

    async def over(self) -> None:
        """Wait until all is well again."""
        if self._running is not None:
            await self._running

    async def _lock(self, seconds: float) -> None:
        assert self._locker.stdin
        assert self._locker.stdout
        self._locker.stdin.write(f"{seconds}\n".encode())
        assert await self._locker.stdout.readline()

    async def _fill(self, seconds: float) -> None:
        """Let no file of the proxy grow: what SQLite sees is a failed write."""
        _, hard = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
        before = resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (FULL_AT_BYTES, hard))
        try:
            await asyncio.sleep(seconds)
        finally:
            resource.prlimit(self._pid, resource.RLIMIT_FSIZE, before)


@asynccontextmanager
async def store_faults(store: Path, proxy_pid: int, random: Random) -> AsyncIterator[StoreFaults]:
    """Have them at hand until the block ends."""
    locker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _LOCKER, str(store)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    faults = StoreFaults(locker, proxy_pid, random)
    try:
        yield faults
        await faults.over()
    finally:
        locker.kill()
        await locker.wait()
