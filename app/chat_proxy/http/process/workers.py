"""Several processes on one socket: started, watched, replaced, stopped together."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from prometheus_client.multiprocess import mark_process_dead

from chat_proxy.telemetry.logs import ERROR, WARNING, log
from chat_proxy.telemetry.metrics import note_worker_deaths

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
        self._first: frozenset[SpawnProcess] = frozenset()
        self._stopping = False
        self._exit_code = 0
        self._deaths = 0

    def run(self) -> int:
        """Run the workers until a signal comes; return the exit code."""
        with arriving_signals() as signals:
            self._start_missing(signals)
            self._first = frozenset(self._processes)
            while self._processes or not self._stopping:
                if signals in wait([signals, *(process.sentinel for process in self._processes)]):
                    self._stop(signals.recv())
                for process in [each for each in self._processes if not each.is_alive()]:
                    self._bury(process)
                if not self._stopping and not signals.poll(self._pause()):
                    self._start_missing(signals)
        return self._exit_code

    def _pause(self) -> float:
        return RESTART_PAUSE_SECONDS if len(self._processes) < self._count else 0

    def _start_missing(self, signals: Connection) -> None:
        context = multiprocessing.get_context("spawn")
        while len(self._processes) < self._count and not signals.poll():
            process = context.Process(target=work, args=(self._target, *self._args))
            process.start()
            self._processes.append(process)

    def _bury(self, process: SpawnProcess) -> None:
        """Let go of a dead worker.

        One of the first that cannot start says that none can; a later one leaves the others alone.
        """
        process.join()
        self._processes.remove(process)
        mark_process_dead(process.pid, self._metrics_dir)  # type: ignore[no-untyped-call]
        if process.exitcode == CANNOT_START and process in self._first and not self._stopping:
            log("a worker could not start, so all are stopped", ERROR, pid=process.pid)
            self._exit_code = CANNOT_START
            self._stop(signal.SIGTERM)
        elif not self._stopping:
            self._deaths += 1
            note_worker_deaths(self._metrics_dir, self._deaths)
            log("worker died and is replaced", WARNING, pid=process.pid, exit_code=process.exitcode)

    def _stop(self, signal_number: int) -> None:
        self._stopping = True
        for process in self._processes:
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal_number)


@contextmanager
def arriving_signals() -> Iterator[Connection]:
    """Yield a pipe from which SIGTERM and SIGINT are read, one number for each that came.

    A handler that stopped the workers itself could come while one is being started, and miss it.
    """
    reader, writer = multiprocessing.Pipe(duplex=False)

    def pass_on(number: int, _: FrameType | None) -> None:
        writer.send(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield reader
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


def work(target: Callable[..., None], *args: object) -> None:
    """Be a worker: what Ctrl-C sends goes to the parent alone, and without a parent there is none.

    A terminal signals its whole process group; a worker in it would hear each Ctrl-C twice.
    """
    os.setpgid(0, 0)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    target(*args)


def _stop_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
