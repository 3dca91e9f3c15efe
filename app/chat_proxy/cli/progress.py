"""A sign of life from commands that take their time."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

FIRST_SECONDS = 1.0
NEXT_SECONDS = 0.5
CLEAR_LINE = "\r\x1b[K"
MEGABYTE = 1_000_000


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show on a terminal what takes longer than a second, and for how long; elsewhere nothing.

    A thread shows it: the work may keep the event loop busy, or have none.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    showing = threading.Thread(target=_show, args=(doing, done), daemon=True)
    showing.start()
    try:
        yield
    finally:
        done.set()
        showing.join()


def _show(doing: str, done: threading.Event) -> None:
    """Write the line again and again, and wipe it away at the end."""
    started = time.monotonic()
    if done.wait(FIRST_SECONDS):
        return
    while True:
        sys.stderr.write(f"{CLEAR_LINE}chat-proxy: {doing}, {time.monotonic() - started:.0f} s")
        sys.stderr.flush()
        if done.wait(NEXT_SECONDS):
            break
    sys.stderr.write(CLEAR_LINE)
    sys.stderr.flush()


def megabytes(size_bytes: int) -> str:
    """Return a size for people, with a digit after the point where it is small."""
    size = size_bytes / MEGABYTE
    return f"{size:.0f} MB" if size >= 10 else f"{size:.1f} MB"
