"""Worker processes that share one socket: started, replaced when they die, stopped together."""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType

CANNOT_START = 3
RESTART_PAUSE_SECONDS = 0.5

_log = logging.getLogger("chat_proxy.workers")


class Workers:
    """Keep a number of worker processes alive until a signal stops them."""

    def __init__(
        self,
        count: int,
        target: Callable[..., None],
        args: tuple[object, ...],
        *,
        on_exit: Callable[[int], None],
        on_deaths: Callable[[int], None],
    ) -> None:
        """Run `target(*args)` in each process.

        `on_exit` is called with the pid of each process that has ended, `on_deaths` with how many
        have died so far.
        """
        self._count = count
        self._target = target
        self._args = args
        self._on_exit = on_exit
        self._on_deaths = on_deaths
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
                    self._remove(process)
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

    def _remove(self, process: SpawnProcess) -> None:
        """Remove a dead worker.

        If one of the first workers cannot start, none can, and all are stopped. A later one that
        cannot start is replaced like any other.
        """
        process.join()
        self._processes.remove(process)
        if process.pid is not None:
            self._on_exit(process.pid)
        if process.exitcode == CANNOT_START and process in self._first and not self._stopping:
            fields: dict[str, object] = {"pid": process.pid}
            _log.error("a worker could not start, so all are stopped", extra={"fields": fields})
            self._exit_code = CANNOT_START
            self._stop(signal.SIGTERM)
        elif not self._stopping:
            self._deaths += 1
            self._on_deaths(self._deaths)
            fields = {"pid": process.pid, "exit_code": process.exitcode}
            _log.warning("worker died and is replaced", extra={"fields": fields})

    def _stop(self, signal_number: int) -> None:
        self._stopping = True
        for process in self._processes:
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal_number)


@contextmanager
def arriving_signals() -> Iterator[Connection]:
    """Yield a pipe from which SIGTERM and SIGINT are read, one number per signal.

    A handler that stopped the workers itself could run while one is being started, and miss it.
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
    """Run as a worker: in a process group of its own, and only as long as the parent lives.

    A terminal signals its whole process group; a worker in it would get each Ctrl-C twice.
    """
    os.setpgid(0, 0)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    target(*args)


def _stop_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
