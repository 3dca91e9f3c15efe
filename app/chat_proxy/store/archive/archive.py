"""The archive: the originals of compacted messages, in files that people and agents can read.

All work runs on one thread. The time that a request waits for it is bounded, and a cancelled
request does not interrupt it. When a tenant has too much, its oldest originals are deleted. When
the archive is full, the oldest of the largest tenant are, then the oldest files, but never the
current day's file: a text that does not fit beside it is refused.
"""

import asyncio
import errno
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from chat_proxy.store.archive.dialog import DialogPlace, Span, append_span, find_span, purge_dialog
from chat_proxy.store.archive.files import Folders, alone_in_archive
from chat_proxy.store.archive.results import file_of, path_of, purge_results, write_result
from chat_proxy.store.archive.space import Space
from chat_proxy.store.base import Capacity, StoreUnavailable
from chat_proxy.store.purge_selection import DAY_SECONDS, Purged, Selection

T = TypeVar("T")
Notice = Callable[[str, str], None]

SWEEP_SECONDS = 3600.0
# If the clock is off by more than this when a sweep is due, it has jumped or the machine has slept.
JUMP_SECONDS = 600.0
WAIT_SECONDS = 5.0

Fault = OSError | ValueError | TypeError | RecursionError
"""A disk error, or a name or message that cannot be written."""


class Archive:
    """Stores originals, limited by age and bytes; a failure is only a notice.

    All tenants share the bytes, and each has a limit of its own. Every original records its tenant,
    by which it is counted and purged.
    """

    def __init__(
        self,
        folder: Path,
        retention_days: float,
        capacity: Capacity = Capacity(),  # noqa: B008 - a constant
        notice: Notice = lambda _operation, _reason: None,
        clock: Callable[[], float] = time.time,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._folder = folder
        self._retention_seconds = retention_days * DAY_SECONDS
        self._space = Space(capacity)
        self._notice = notice
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._thread = ThreadPoolExecutor(1, "archive")
        self._sweeping: asyncio.Task[None] | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Start sweeping, now and regularly."""
        self._sweeping = asyncio.create_task(self._sweep_regularly())

    async def close(self) -> None:
        """Finish the work that has started and drop the rest."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait({self._sweeping})
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)

    async def keep_dialog(
        self,
        tenant: str,
        chain_id: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        start: int = 0,
        after: str | None = None,
    ) -> DialogPlace | None:
        """Store a span of a conversation once; return its place, even if another call stored it.

        `start` is the number of the client's messages before it; `after` names the span before it.
        """
        span = Span(tenant, chain_id, messages, start, after)
        return await self._within_bound("archive_dialog", partial(self._keep_dialog, span))

    async def keep_result(self, tenant: str, name: str, text: str) -> Path | None:
        """Store a tool result under its id once and return its file."""
        work = partial(self._keep_result, tenant, name, text)
        return await self._within_bound("archive_result", work)

    async def sweep(self) -> None:
        """Delete files that are too old, and the oldest ones if the archive is too large."""
        await self._within_bound("archive_sweep", self._sweep, is_bounded=False)

    async def purge(self, selection: Selection) -> Purged:
        """Delete the selected originals, or raise StoreUnavailable.

        The age of a day's file is that of its last line.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._purge, selection)
        except OSError as error:
            raise StoreUnavailable(f"{self._folder}: {error.strerror}") from None

    async def _sweep_regularly(self) -> None:
        """Sweep at intervals, but not right after the clock has jumped: it may jump back."""
        due = self._clock()
        while True:
            if abs(self._clock() - due) < JUMP_SECONDS:
                await self.sweep()
            due = self._clock() + SWEEP_SECONDS
            await asyncio.sleep(SWEEP_SECONDS)

    async def _within_bound(
        self, operation: str, work: Callable[[], T], *, is_bounded: bool = True
    ) -> T | None:
        """Return the result of the work, run on the thread, or None after the time limit."""
        if self._is_closed:
            return None
        loop = asyncio.get_running_loop()
        task = loop.run_in_executor(self._thread, _guarded, work)
        wait_seconds = self._wait_seconds if is_bounded else None
        done, _ = await asyncio.wait({task}, timeout=wait_seconds)
        if not done:
            # Drop work that has not started: texts must not pile up while the disk hangs.
            task.cancel()
            self._notice(operation, "slow")
            return None
        result = task.result()
        if isinstance(result, Fault):
            self._notice(operation, _reason(result))
            return None
        return result

    # On the archive's thread

    def _keep_dialog(self, span: Span) -> DialogPlace | None:
        lines = span.lines()
        if not lines:
            return None
        with self._locked() as folders:
            place = find_span(folders.dialog, lines)
            if place is None:
                now = self._clock()
                self._space.reserve(folders, span.tenant, len(lines), now)
                place = append_span(folders.dialog, span.tenant, lines, now)
        return place

    def _keep_result(self, tenant: str, name: str, text: str) -> Path:
        file, content = file_of(name), text.encode("utf-8", "replace")
        with self._locked() as folders:
            if folders.results.entry(file):
                # It is used again, so its retention starts again.
                folders.results.touch(file, self._clock())
            else:
                now = self._clock()
                self._space.reserve(folders, tenant, len(content), now)
                write_result(folders.results, tenant, name, content, now)
        return self._folder / path_of(name)

    def _sweep(self) -> None:
        now = self._clock()
        old = Selection(before=now - self._retention_seconds)
        with self._locked() as folders:
            for folder in folders.both:
                folder.fix_future_times(now)
            _purge(folders, old, now)
            self._space.sweep(folders, now)

    def _purge(self, selection: Selection) -> Purged:
        self._space.forget()
        with self._locked() as folders:
            return _purge(folders, selection, self._clock())

    def _locked(self) -> AbstractContextManager[Folders]:
        return alone_in_archive(self._folder, self._wait_seconds)


def _purge(folders: Folders, selection: Selection, now: float) -> Purged:
    for folder in folders.both:
        folder.remove_drafts()
    dialog = purge_dialog(folders.dialog, selection)
    return dialog + purge_results(folders.results, selection, now)


def _guarded(work: Callable[[], T]) -> T | Fault:
    """Return the error instead of raising it, since the result may not be awaited."""
    try:
        return work()
    except (OSError, ValueError, TypeError, RecursionError) as error:
        return error


def _reason(error: Fault) -> str:
    """Return a name for the fault that reveals nothing of the text."""
    number = error.errno if isinstance(error, OSError) else None
    return errno.errorcode.get(number or 0, type(error).__name__).lower()
