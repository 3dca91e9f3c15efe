"""Write batching: messages written in one iteration of the event loop are sent together.

A write wakes the process at the other end, which costs more than the bytes while that process
sleeps. Under load several requests are ready at once: their writes are held until the last task
of the iteration has run, so that the other end is woken once (docs/decisions/010). A request that
is alone is not held.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter
from weakref import WeakKeyDictionary

MAX_WRITES = 16
MAX_SECONDS = 0.001

Message = tuple[bytes, ...]
"""A message as it is written, in one part or more."""
Look = Callable[[], bool]
"""Asked at the moment of writing whether a message may still be written."""


class WriteBatch:
    """Hold messages while other tasks of the same iteration may still write theirs.

    `wake` counts a task that is about to run, `run` the same task running. A task that was woken
    and cancelled before it ran is dropped from the count by the next delivery from the loop.
    """

    __slots__ = ("__weakref__", "_held_since", "_ran", "_woken", "_writes")

    def __init__(self) -> None:
        self._woken = 0
        self._ran = 0
        self._held_since = 0.0
        self._writes: list[tuple[asyncio.WriteTransport, Message, Look | None]] = []

    def wake(self) -> None:
        """Count a task that will run."""
        self._woken += 1

    def run(self) -> None:
        """Count a running task; messages held for long do not wait for its work as well."""
        self._ran += 1
        if self._writes and perf_counter() - self._held_since > MAX_SECONDS:
            self.deliver()

    def send(
        self, transport: asyncio.WriteTransport, message: Message, look: Look | None = None
    ) -> None:
        """Write a message, at the latest in the loop's next iteration, if `look` allows it then."""
        writes = self._writes
        if self._woken <= self._ran:
            if writes:
                self.deliver()
            _write(transport, message, look)
            return
        if not writes:
            self._held_since = perf_counter()
            asyncio.get_running_loop().call_soon(self._deliver_after, self._woken)
        writes.append((transport, message, look))
        if len(writes) >= MAX_WRITES:
            self.deliver()

    def deliver(self) -> None:
        """Write what is held; call it before a transport is closed."""
        if self._writes:
            writes, self._writes = self._writes, []
            for transport, message, look in writes:
                _write(transport, message, look)

    def _deliver_after(self, woken: int) -> None:
        """Deliver after all tasks that had been woken by then: the loop keeps their order."""
        self._ran = max(self._ran, woken)
        self.deliver()


_BATCHES: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatch] = WeakKeyDictionary()


def write_batch_of(loop: asyncio.AbstractEventLoop) -> WriteBatch:
    """Return the batch that all connections of an event loop share, to clients and upstreams."""
    batch = _BATCHES.get(loop)
    if batch is None:
        batch = _BATCHES[loop] = WriteBatch()
    return batch


def _write(transport: asyncio.WriteTransport, message: Message, look: Look | None) -> None:
    """Write to an open connection; break off one that refuses, at no other connection's expense."""
    if transport.is_closing() or (look is not None and not look()):
        return
    try:
        for part in message:
            transport.write(part)
    except RuntimeError:  # after an end of file
        transport.abort()
