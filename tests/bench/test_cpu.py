"""What `bench.cpu` reads from the scheduler, beside neighbours that keep the cores busy."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from bench.cpu import caused_seconds, waited_seconds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the times of threads")

SECONDS = 0.3
COMPUTE = "while True: pass"


@pytest.fixture
def _busy_machine() -> Iterator[None]:
    neighbours = [started(COMPUTE) for _ in range(4 * (os.cpu_count() or 1))]
    yield
    for neighbour in neighbours:
        stop(neighbour)


def started(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def compute() -> None:
    until = time.thread_time() + SECONDS
    while time.thread_time() < until:
        pass


@pytest.mark.usefixtures("_busy_machine")
def test_what_a_process_computes_is_caused_by_it_and_not_what_its_neighbours_do() -> None:
    began = time.perf_counter()
    caused = caused_seconds([os.getpid()], compute)
    wall = time.perf_counter() - began

    assert wall > 1.5 * SECONDS
    assert 0.5 * SECONDS < caused < 1.2 * SECONDS


def test_a_wait_for_nothing_is_not_caused_by_computing() -> None:
    assert caused_seconds([os.getpid()], lambda: time.sleep(SECONDS)) < 0.2 * SECONDS


@pytest.mark.usefixtures("_busy_machine")
def test_a_thread_of_a_busy_machine_has_waited_for_a_core() -> None:
    process = started(COMPUTE)
    before = sum(waited_seconds(process.pid).values())
    time.sleep(2 * SECONDS)
    after = sum(waited_seconds(process.pid).values())
    stop(process)

    assert after - before > 0.1 * SECONDS
