import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.clients.proxy import is_asleep


def test_a_process_that_waits_is_asleep() -> None:
    with _running("input()") as process:
        assert _becomes_asleep(process)


def test_a_process_with_a_thread_that_computes_is_not_asleep() -> None:
    busy = "lambda: all(number == 0 for number in iter(int, 1))"
    program = f"import threading; threading.Thread(target={busy}).start(); input()"
    with _running(program) as process:
        time.sleep(0.3)
        assert not is_asleep(process)


def _becomes_asleep(process: int) -> bool:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if is_asleep(process):
            return True
        time.sleep(0.01)
    return False


@contextmanager
def _running(program: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        process.kill()
        process.communicate()
