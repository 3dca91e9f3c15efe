"""Several processes on one socket: started, watched, replaced, stopped together."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from prometheus_client.multiprocess import mark_process_dead

from app.telemetry.logs import say

CANNOT_START = 3
RESTART_PAUSE_SECONDS = 0.5


class Workers:
    """Keeps a number of worker processes alive until it is told to stop."""

    def __init__(
        self, count: int, target: Callable[..., None], args: tuple[object, ...], metrics_dir: str
    ) -> None:
        self._count = count
        self._target = target
        self._args = args
        self._metrics_dir = metrics_dir
        self._processes: list[SpawnProcess] = []
        self._stopping = False
        self._exit_code = 0

    def run(self) -> int:
        """Run the workers until a signal comes; return the exit code."""
        with self._signals():
            self._processes = [self._start() for _ in range(self._count)]
            while self._processes:
                wait([process.sentinel for process in self._processes], timeout=1)
                self._replace_dead()
        return self._exit_code

    def _start(self) -> SpawnProcess:
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=self._target, args=self._args)
        process.start()
        return process

    def _replace_dead(self) -> None:
        for process in [process for process in self._processes if not process.is_alive()]:
            process.join()
            self._processes.remove(process)
            mark_process_dead(process.pid, self._metrics_dir)  # type: ignore[no-untyped-call]
            if process.exitcode == CANNOT_START:
                self._exit_code = CANNOT_START
                self._stop(signal.SIGTERM)
            elif not self._stopping:
                say("worker died and is replaced", pid=process.pid, exit_code=process.exitcode)
                time.sleep(RESTART_PAUSE_SECONDS)
                self._processes.append(self._start())

    def _stop(self, signal_number: int) -> None:
        self._stopping = True
        for process in self._processes:
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal_number)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Pass SIGTERM and SIGINT on to the workers."""

        def pass_on(number: int, _: FrameType | None) -> None:
            self._stop(number)

        before = {
            number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
