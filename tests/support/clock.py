"""A clock for tests that stands still while other processes of the machine have the cores."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from functools import cache

PATIENCE_SECONDS = 30.0
"""For what must happen, whenever that is: nothing is shown by how long it takes."""
LOOK_SECONDS = 0.01
LOOKS = 20
STEADY_SECONDS = 0.004


class OwnClock:
    """The wall clock less the time for which threads of these processes waited for a core.

    A difference of two readings is what would have passed on an idle machine: computing, sleeping
    and waiting for an answer count, being ready to run while another process runs does not. It
    never goes back. Linux knows the waits of every thread; elsewhere this is the wall clock.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._folders = [f"/proc/{pid}/task" for pid in pids]
        self._looked_at, self._waits = self._look()
        self._last = self._looked_at
        self._lost_seconds = 0.0

    def __call__(self, look_seconds: float = 0.0) -> float:
        """Return the seconds; the waits are looked at again only every `look_seconds`.

        Of threads that wait at the same time the longest wait counts, so that no more is taken
        off than has passed.
        """
        now = time.monotonic()
        if now - self._looked_at >= look_seconds:
            before = self._waits
            now, self._waits = self._look()
            # The number of a thread that has ended is given to another one.
            new = (max(0, wait - before.get(it, 0)) for it, wait in self._waits.items())
            self._lost_seconds += min(max(new, default=0) / 1e9, now - self._looked_at)
            self._looked_at = now
        self._last = max(self._last, now - self._lost_seconds)
        return self._last

    def _look(self) -> tuple[float, dict[str, int]]:
        """Return the wall clock and the waits up to then: read without a wait in between."""
        for _ in range(LOOKS):
            began = time.monotonic()
            waits = self._read_waits()
            now = time.monotonic()
            if now - began < STEADY_SECONDS:
                break
        return now, waits

    def _read_waits(self) -> dict[str, int]:
        """Return the nanoseconds of each thread so far."""
        waits = {}
        for folder in self._folders:
            with suppress(OSError):
                for thread in os.listdir(folder):  # noqa: PTH208 - half the time of Path's
                    with suppress(OSError), open(f"{folder}/{thread}/schedstat", "rb") as file:  # noqa: PTH123
                        waits[f"{folder}/{thread}"] = int(file.read().split()[1])
        return waits


@cache
def _clock_of(*pids: int) -> OwnClock:
    return OwnClock(pids)


def own_time(*pids: int) -> float:
    """Return the time of the clock of this process, and of those."""
    return _clock_of(os.getpid(), *pids)()


class OwnTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers go by this process' own clock.

    A proxy in the test's own process then has its timeouts as on an idle machine: no upstream is
    silent, no name unresolved and no client slow because another process had the core.
    """

    def __init__(self) -> None:
        self._clock = _clock_of(os.getpid())
        super().__init__()

    def time(self) -> float:
        """Return the time of the timers."""
        return self._clock(LOOK_SECONDS)


BACKEND = ("asyncio", {"loop_factory": OwnTimeLoop})
"""For the fixture `anyio_backend`."""


class Stopwatch:
    """Runs from its making; what may not come early is told by the wall, what is late by `own`."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._wall = time.monotonic()
        self._own = own_time(*pids)
        self._computed = time.process_time()

    def wall(self) -> float:
        """Return the seconds so far; a busy machine makes them more."""
        return time.monotonic() - self._wall

    def own(self) -> float:
        """Return the seconds so far without those in which other processes had the cores."""
        return own_time(*self._pids) - self._own

    def busy(self) -> float:
        """Return by how much this process' own computing can have delayed a task so far.

        It is at most `own`, which counts too much where threads waited for cores in turn, and at
        most the CPU time of all threads. A stall is both: whoever keeps the event loop or the
        interpreter computes.
        """
        return min(self.own(), time.process_time() - self._computed)


async def own_seconds_to_end(process: asyncio.subprocess.Process) -> float:
    """Wait for a process and return how long that took; what it waited is gone when it has ended.

    Another task must read meanwhile what the process writes.
    """
    watch = Stopwatch(process.pid)
    while process.returncode is None:
        watch.own()
        await asyncio.sleep(0.02)
    return watch.own()


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Fail a block that takes longer than so many seconds of this clock."""
    start = own_time()
    async with asyncio.timeout(seconds + PATIENCE_SECONDS):
        yield
    assert own_time() - start < seconds
