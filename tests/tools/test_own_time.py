"""The clock that timing tests go by: busy neighbours do not move it, and nothing else stops it."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.clock import BACKEND, OwnTimeLoop, Stopwatch, own_time, within

NEIGHBOURS = 4 * (os.cpu_count() or 1)
WORK_SECONDS = 0.3
LOST_SHARE = 0.2
"""Of what passed: waits for a core while the waits are read are not known."""


@pytest.fixture
def _busy_machine() -> Iterator[None]:
    """Processes that compute, several for each core."""
    command = [sys.executable, "-c", "while True: pass"]
    neighbours = [subprocess.Popen(command) for _ in range(NEIGHBOURS)]
    yield
    for neighbour in neighbours:
        neighbour.kill()
        neighbour.wait()


def compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells how long a thread waits")
@pytest.mark.usefixtures("_busy_machine")
def test_work_takes_its_own_time_beside_busy_neighbours() -> None:
    watch = Stopwatch()
    compute(WORK_SECONDS)
    own, wall = watch.own(), watch.wall()

    assert wall > 1.5 * WORK_SECONDS
    assert abs(own - WORK_SECONDS) < max(0.5 * WORK_SECONDS, LOST_SHARE * wall)


def test_sleep_counts() -> None:
    watch = Stopwatch()
    time.sleep(WORK_SECONDS)

    assert watch.own() > 0.5 * WORK_SECONDS


def test_it_never_goes_back() -> None:
    readings = [own_time() for _ in range(200)]

    assert readings == sorted(readings)


@pytest.mark.anyio
async def test_the_timers_of_a_test_go_by_it() -> None:
    assert BACKEND[1]["loop_factory"] is OwnTimeLoop
    assert isinstance(asyncio.get_running_loop(), OwnTimeLoop)


@pytest.mark.anyio
async def test_a_block_that_takes_too_long_fails() -> None:
    with pytest.raises(AssertionError):
        async with within(0.01):
            compute(0.05)
