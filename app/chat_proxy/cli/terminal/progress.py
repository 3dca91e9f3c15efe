"""Progress on the terminal for slow commands."""

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
    """Show on a terminal what is being done, and for how long, if it takes over a second.

    A thread writes it, because the work may block the event loop or have none.
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
    """Rewrite the line until the work is done, then clear it."""
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
    """Return a readable size, with one decimal if it is small."""
    size = size_bytes / MEGABYTE
    return f"{size:.0f} MB" if size >= 10 else f"{size:.1f} MB"
