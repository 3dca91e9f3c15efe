"""CPU time and memory of a server and all its children, who share its session."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat after the command's name, which may itself contain blanks.
_SESSION, _USER, _SYSTEM, _REAPED_USER, _REAPED_SYSTEM, _RESIDENT = 3, 11, 12, 13, 14, 21


def cpu_seconds(session: int) -> float:
    """Return user and system time of all processes of a session, reaped children included."""
    return sum(_process_seconds(folder, fields) for folder, fields in _processes(session))


def resident_bytes(session: int) -> int:
    """Return the resident memory of all processes of a session; shared pages count for each."""
    return sum(int(fields[_RESIDENT]) for _, fields in _processes(session)) * _PAGE_BYTES


def waited_seconds(session: int) -> dict[Path, float]:
    """Return how long each thread of a session was ready to run while others had the cores."""
    times = thread_times(int(folder.name) for folder, _ in _processes(session))
    return {thread: waited / 1e9 for thread, (_, waited) in times.items()}


def caused_seconds(pids: Iterable[int], work: Callable[[], None]) -> float:
    """Do some work; return by how much these processes' own computing can have delayed it.

    That is at most what they computed meanwhile, and at most what passed while none of their
    threads was ready to run and waited for a core: neighbours on a busy machine change neither.
    """
    known = tuple(pids)
    began, before = time.perf_counter(), thread_times(known)
    work()
    after, ended = thread_times(known), time.perf_counter()
    new = [_difference(times, before.get(thread, (0, 0))) for thread, times in after.items()]
    ran = sum(ran for ran, _ in new)
    waited = max((waited for _, waited in new), default=0)
    return max(0.0, min(ran / 1e9, ended - began - waited / 1e9))


def thread_times(pids: Iterable[int]) -> dict[Path, tuple[int, int]]:
    """Return for how many nanoseconds each thread of these processes ran, and waited for a core."""
    times = {}
    for pid in pids:
        for task in (_PROC / str(pid) / "task").glob("*/schedstat"):
            try:
                ran, waited, _ = task.read_text().split()
            except OSError:  # the thread has ended
                continue
            times[task] = int(ran), int(waited)
    return times


def _difference(now: tuple[int, int], before: tuple[int, int]) -> tuple[int, int]:
    """Return by how much the times of a thread have grown; its number may be another one's now."""
    return max(0, now[0] - before[0]), max(0, now[1] - before[1])


def _process_seconds(folder: Path, fields: list[str]) -> float:
    """Return the time of one process and of the children it has reaped.

    The scheduler's nanoseconds are exact but forget threads that have ended; the ticks remember
    them but are rounded down. So the larger of the two is the better one.
    """
    own = (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_PER_SECOND
    reaped = (int(fields[_REAPED_USER]) + int(fields[_REAPED_SYSTEM])) / _TICKS_PER_SECOND
    return max(own, _scheduled_seconds(folder)) + reaped


def _scheduled_seconds(folder: Path) -> float:
    return sum(ran for ran, _ in thread_times([int(folder.name)]).values()) / 1e9


def _processes(session: int) -> Iterator[tuple[Path, list[str]]]:
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        if int(fields[_SESSION]) == session:
            yield folder, fields
