"""Summary jobs: one per history, shared by all requests that need the summary."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from chat_proxy.caches import LruCache
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.errors import UpstreamError
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.lifecycle.fair_slots import FairSlots
from chat_proxy.proxy.session.recognition.checkpoints import Checkpoints
from chat_proxy.proxy.session.recognition.history import History
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.proxy.summaries.failure import SummaryFailed
from chat_proxy.store.lease import Leases, renewed
from chat_proxy.telemetry.logs import WARNING, log, log_exception
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.upstream.breaker import Breakers

PREPARED = "prepared"
WRITING = "writing"
PAUSES_SECONDS = (60.0, 300.0, 900.0)
GROWTH = 1.1
REMEMBERED_FAILURES = 10_000
REMEMBERED_JOBS = 200
REMEMBERED_MODELS = 1_000
LEASE_SECONDS = 10.0
POLL_SECONDS = 1.1
MAX_TASKS = 64
"""The number of tasks from which no summary is prepared: each task holds a whole request."""
BREAKER_FAILURES = 5
BREAKER_SECONDS = 30.0

SummaryTask = asyncio.Task[Checkpoint | None]
_Key = tuple[Scope, bytes, int, str, int]
Write = Callable[[], Awaitable[Checkpoint]]


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """A summary to write: its scope, its history, and the prompt size at which it was needed."""

    scope: Scope
    link: bytes
    """The hash of the history up to the summary's end: two jobs must not write it at once."""
    anchor: bytes
    """The hash of the last words of that history, which a client that changes the rest keeps."""
    end: int
    """The seam at which the summary ends."""
    start: int
    """How many messages an earlier summary covers; another start makes another summary."""
    tokens: int
    timeout_seconds: float
    history: History
    write: Write
    wish: str = ""
    """The user's instruction; a summary with one is not shared with other requests."""


@dataclass(frozen=True, slots=True)
class _Failure:
    count: int
    until: float
    tokens: int
    """The minimum prompt size for a retry, whatever the time; 0 if only time matters."""
    failure: SummaryFailed
    messages: int
    """How many messages the summary would have covered; a client that dropped some has fewer."""


class SummaryJobs:
    """Write summaries in tasks of their own, so that a client's disconnect cancels none.

    Jobs and failures are keyed by scope (so by tenant) and history; the caches are bounded.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        leases: Leases,
        metrics: Metrics,
        concurrency: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checkpoints = checkpoints
        self._leases = leases
        self._metrics = metrics
        self._slots = FairSlots(concurrency)
        self._clock = clock
        self._running: dict[_Key, tuple[SummaryJob, SummaryTask]] = {}
        self._finished: LruCache[_Key, SummaryTask] = LruCache(REMEMBERED_JOBS)
        self._previewing: dict[tuple[Scope, bytes], asyncio.Task[None]] = {}
        self._not_needed: LruCache[tuple[Scope, bytes], int] = LruCache(REMEMBERED_FAILURES)
        self._failures: LruCache[tuple[Scope, bytes], _Failure] = LruCache(REMEMBERED_FAILURES)
        self.breakers = Breakers(BREAKER_FAILURES, BREAKER_SECONDS, clock)
        self.rejected_fields: LruCache[str, frozenset[str]] = LruCache(REMEMBERED_MODELS)
        """The request fields that a model refuses, by the summary model's name."""

    async def under_way(self, scope: Scope, history: History) -> SummaryTask | None:
        """Return the running task that summarises a prefix of this history, if there is one.

        A client may have changed the form of the history meanwhile.
        """
        running = [(job, task) for job, task in self._running.values() if job.scope == scope]
        if not running:
            return None
        links = frozenset(history.links)
        seams = {anchor: seam for seam, anchor in history.anchors(len(history.links)).items()}
        for job, task in running:
            if job.link in links:
                return task
            if seam := seams.get(job.anchor):
                compared = partial(history.continues, job.history, job.end, seam)
                if await run_inline_or_in_thread(compared, history.size):
                    return task
        return None

    def may_try(self, scope: Scope, history: History, tokens: int) -> bool:
        """Return whether a summary of this conversation may be tried; not soon after a failure."""
        failure = self._failure_of(scope, history)
        if failure is None:
            return True
        return self._clock() >= failure.until and tokens >= failure.tokens

    def last_failure(self, scope: Scope, history: History) -> SummaryFailed:
        """Return why the last summary of this conversation failed."""
        failed = self._failure_of(scope, history)
        return failed.failure if failed else SummaryFailed("unavailable")

    def _failure_of(self, scope: Scope, history: History) -> _Failure | None:
        """Return the last failure of a conversation, whose beginning the client may have dropped.

        Then it still has the words at which the summary that failed would have ended.
        """
        failure = self._failures.get((scope, history.beginning))
        if failure is not None or not len(self._failures):
            return failure
        for seam, anchor in history.anchors(len(history.links)).items():
            failure = self._failures.get((scope, anchor))
            if failure is not None and seam - history.instructions < failure.messages:
                return failure
        return None

    def check_ahead(
        self, key: tuple[Scope, bytes], tokens: int, look: Callable[[], Awaitable[bool]]
    ) -> None:
        """Check in the background whether a summary is needed soon, one check per conversation.

        If the check finds nothing to gain, the next one waits until the conversation has grown.
        """
        if key in self._previewing or tokens < (self._not_needed.get(key) or 0):
            return
        if len(self._previewing) + len(self._running) >= MAX_TASKS:
            return
        task = asyncio.create_task(self._look(key, tokens, look))
        self._previewing[key] = task
        task.add_done_callback(lambda _: self._previewing.pop(key, None))

    async def _look(
        self, key: tuple[Scope, bytes], tokens: int, look: Callable[[], Awaitable[bool]]
    ) -> None:
        try:
            if not await look():
                self._not_needed.put(key, int(tokens * GROWTH))
        except Exception as error:  # noqa: BLE001 - features fail open
            log_exception("a summary could not be prepared", error)
            self._not_needed.put(key, int(tokens * GROWTH))

    def begin(self, job: SummaryJob) -> SummaryTask:
        """Start a job, or return the task of the same job that is running or has just finished."""
        task = self.known(job)
        if task is None:
            key = _key_of(job)
            task = asyncio.create_task(self._write(job))
            self._running[key] = (job, task)
            task.add_done_callback(partial(self._finish, key))
        return task

    def known(self, job: SummaryJob) -> SummaryTask | None:
        """Return the task of the same job that is running or has just finished."""
        running = self._running.get(_key_of(job))
        return running[1] if running else self._finished.get(_key_of(job))

    async def wait(self, task: SummaryTask) -> Checkpoint | None:
        """Wait for a summary; a caller that is cancelled does not cancel the job."""
        self._metrics.summary_waits.inc()
        return await asyncio.shield(task)

    def _finish(self, key: _Key, task: SummaryTask) -> None:
        """Keep a finished task for requests that looked for its summary just too early."""
        del self._running[key]
        if not task.cancelled() and task.result() is not None:
            self._finished.put(key, task)

    async def close(self) -> None:
        """Cancel all jobs; a summary that is not stored yet is written again when it is needed."""
        tasks = [*self._previewing.values(), *(task for _, task in self._running.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, job: SummaryJob) -> Checkpoint | None:
        try:
            async with asyncio.timeout(job.timeout_seconds):
                checkpoint = await self._written_once(job)
        except TimeoutError:
            self._failed(job, SummaryFailed("timeout"))
        except SummaryFailed as failure:
            self._failed(job, failure)
        except UpstreamError as error:
            self._failed(job, SummaryFailed(error.code))
        except Exception as error:  # noqa: BLE001 - features fail open
            log_exception("a summary failed because of an internal error", error)
            self._failed(job, SummaryFailed("mistake"))
        else:
            anchors = job.history.anchors(len(job.history.links)).values()
            for name in (job.history.beginning, *anchors):
                self._failures.forget((job.scope, name))
            return checkpoint
        return None

    async def _written_once(self, job: SummaryJob) -> Checkpoint:
        """Write a summary, or wait for the one that another process is writing.

        A process that dies while it writes loses its lease, and another one takes over. The
        summary of a shorter history is waited for too: its conversation has grown meanwhile, and
        the next request came to this process.
        """
        name = job.link + job.wish.encode("utf-8", "replace")
        key = self._checkpoints.address(job.scope, name, WRITING)
        shorter = self._shorter(job)
        while True:
            is_begun = await self._leases.any_held(shorter)
            lease = None if is_begun else await self._leases.lease(key, LEASE_SECONDS)
            theirs = await self._written_elsewhere(job)
            if lease is not None:
                async with renewed(lease, LEASE_SECONDS):
                    return theirs or await self._written(job)
            if theirs is not None:
                return theirs
            await asyncio.sleep(POLL_SECONDS)

    def _shorter(self, job: SummaryJob) -> list[bytes]:
        """Return the keys of the leases for shorter histories that this summary would continue."""
        if job.wish:
            return []
        history = job.history
        first = max(job.start, history.instructions)
        between = [history.link_at(seam) for seam in history.seams if first < seam < job.end]
        return self._checkpoints.addresses(job.scope, between, WRITING)

    async def _written(self, job: SummaryJob) -> Checkpoint:
        started = self._clock()
        async with self._slots.slot(job.scope.tenant):
            checkpoint = await job.write()
        seconds = self._clock() - started
        self._metrics.summaries.labels("written").inc()
        self._metrics.summary_seconds.observe(seconds)
        log(
            "a summary was written",
            folded_messages=checkpoint.folded_until,
            chars=len(checkpoint.summary),
            seconds=round(seconds, 2),
        )
        await self._checkpoints.keep(job.scope, job.history, checkpoint, PREPARED)
        return checkpoint

    async def _written_elsewhere(self, job: SummaryJob) -> Checkpoint | None:
        """Return the summary of this span if another process has written it meanwhile."""
        if job.wish:
            return None
        find = self._checkpoints.find
        found = await find(job.scope, job.history, job.end, PREPARED, anew=True)
        return found if found is not None and found.summarised_until > job.start else None

    def _failed(self, job: SummaryJob, failure: SummaryFailed) -> None:
        """Record a failure and back off for this conversation, longer each time."""
        before = self._failure_of(job.scope, job.history)
        count = before.count + 1 if before else 1
        pause = max(PAUSES_SECONDS[min(count, 3) - 1], failure.retry_after or 0)
        min_tokens = int(job.tokens * GROWTH) if failure.reason == "no_gain" else 0
        until, messages = self._clock() + pause, job.end - job.history.instructions
        failed = _Failure(count, until, min_tokens, failure.with_traceback(None), messages)
        for name in (job.history.beginning, job.anchor):
            self._failures.put((job.scope, name), failed)
        self._metrics.summaries.labels("failed").inc()
        self._metrics.summary_failures.labels(failure.reason).inc()
        fields = {"reason": failure.reason, "next_try_seconds": pause}
        said = {"said": failure.said} if failure.said else {}
        log("no summary was written", WARNING, **fields, **said)


def _key_of(job: SummaryJob) -> _Key:
    return (job.scope, job.link, job.start, job.wish, job.history.instructions)
