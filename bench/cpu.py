"""CPU time and memory of a server and all its children, who share its session."""

import os
from collections.abc import Iterator
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


def _process_seconds(folder: Path, fields: list[str]) -> float:
    """Return the time of one process and of the children it has reaped.

    The scheduler's nanoseconds are exact but forget threads that have ended; the ticks remember
    them but are rounded down. So the larger of the two is the better one.
    """
    own = (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_PER_SECOND
    reaped = (int(fields[_REAPED_USER]) + int(fields[_REAPED_SYSTEM])) / _TICKS_PER_SECOND
    return max(own, _scheduled_seconds(folder)) + reaped


def _scheduled_seconds(folder: Path) -> float:
    nanoseconds = 0
    for task in (folder / "task").glob("*/schedstat"):
        try:
            nanoseconds += int(task.read_text().split()[0])
        except OSError:  # the thread has ended
            continue
    return nanoseconds / 1e9


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
