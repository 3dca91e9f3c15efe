"""A watchdog of the event loop: a thread reports a blocked loop, and can end the process.

A blocked loop cannot report itself what blocks it.
"""

import asyncio
import os
import sys
import threading
import time
from types import FrameType

from chat_proxy.telemetry.logs import ERROR, WARNING, flush_logs, log
from chat_proxy.telemetry.metrics import Metrics

BEAT_SECONDS = 0.5
BLOCKED_LOOKS = 4
STUCK_LOOKS = 20
TOLD_FRAMES = 20
STUCK_EXIT_CODE = 70


class LoopWatchdog:
    """Count heartbeats in the event loop; a thread checks the count at the same interval.

    Time is counted in checks: a process that was suspended as a whole has missed one, not many.
    """

    def __init__(self, metrics: Metrics, *, ends_process: bool) -> None:
        self._metrics = metrics
        self._ends_process = ends_process
        self._beats = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = threading.Event()
        self._late_seconds = 0.0

    @property
    def is_stuck(self) -> bool:
        """Whether the loop was blocked so long that the process should be replaced."""
        return self._late_seconds >= STUCK_LOOKS * BEAT_SECONDS

    def open(self) -> None:
        """Start; call it in the event loop that is to be watched."""
        self._due = time.monotonic()
        self._beat()
        arguments = (threading.get_ident(),)
        threading.Thread(target=self._watch, args=arguments, name="heartbeat", daemon=True).start()

    def close(self) -> None:
        """Stop the heartbeat and the thread."""
        self._is_closed.set()
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        now = time.monotonic()
        self._late_seconds = now - self._due
        self._metrics.loop_lag.observe(max(0.0, self._late_seconds))
        if self._late_seconds >= BLOCKED_LOOKS * BEAT_SECONDS:
            log("the event loop runs again", WARNING, blocked_seconds=round(self._late_seconds, 3))
        self._beats += 1
        self._due = now + BEAT_SECONDS
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    def _watch(self, thread: int) -> None:
        seen, looks = self._beats, 0
        while not self._is_closed.wait(BEAT_SECONDS):
            looks = looks + 1 if self._beats == seen else 0
            seen = self._beats
            if looks == BLOCKED_LOOKS:
                at = places_in(sys._current_frames().get(thread))  # noqa: SLF001
                log("the event loop is blocked", ERROR, at=at)
            elif looks == STUCK_LOOKS and self._ends_process:
                log("the event loop is stuck, so this worker ends", ERROR)
                flush_logs()
                os._exit(STUCK_EXIT_CODE)


def places_in(frame: FrameType | None) -> list[str]:
    """Return the stack of a thread, outermost first: files, lines and functions, but no values."""
    places: list[str] = []
    while frame is not None and len(places) < TOLD_FRAMES:
        file = frame.f_code.co_filename.rpartition("/")[2]
        places.append(f"{file}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return places[::-1]
