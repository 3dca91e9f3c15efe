"""What is written in one turn of the event loop goes out together, to clients and upstreams.

A write wakes whoever waits at the other end, which costs more than the bytes while he sleeps. In
a crowd several requests are ready at once, and so are their writes: behind the last of them the
other end is woken once, and is still awake for the rest (docs/decisions/010).
"""

import asyncio
from time import perf_counter

from chat_proxy.http.turn import Turn

MOST_WRITES = 16
MOST_SECONDS = 0.001

Message = tuple[bytes, ...]
"""A message as it goes over the wire, in one part or more."""


class WriteBatch(Turn):
    """Holds messages while others of the same turn may still write theirs.

    Who was woken and cancelled before he ran is forgotten with the next delivery from the loop.
    """

    __slots__ = ("_held_since", "_writes")

    def __init__(self) -> None:
        super().__init__()
        self._held_since = 0.0
        self._writes: list[tuple[asyncio.WriteTransport, Message]] = []

    def run(self) -> None:
        """Note that a task runs; what was held for long does not wait for its work as well."""
        self._ran += 1
        if self._writes and perf_counter() - self._held_since > MOST_SECONDS:
            self.deliver()

    def send(self, transport: asyncio.WriteTransport, message: Message) -> None:
        """Write a message, at the latest in the loop's next turn before whatever that one wakes."""
        writes = self._writes
        if self._woken <= self._ran:
            if writes:
                self.deliver()
            _write(transport, message)
            return
        if not writes:
            self._held_since = perf_counter()
            asyncio.get_running_loop().call_soon(self._deliver_behind, self._woken)
        writes.append((transport, message))
        if len(writes) >= MOST_WRITES:
            self.deliver()

    def deliver(self) -> None:
        """Write what is held; to be called before a transport is closed."""
        if self._writes:
            writes, self._writes = self._writes, []
            for transport, message in writes:
                _write(transport, message)

    def _deliver_behind(self, woken: int) -> None:
        """Deliver behind all who had been woken by then: the loop keeps their order."""
        self.forget(woken)
        self.deliver()


def _write(transport: asyncio.WriteTransport, message: Message) -> None:
    """Write to a connection that is there; one that refuses is broken, and nobody else's fault."""
    if transport.is_closing():
        return
    try:
        for part in message:
            transport.write(part)
    except RuntimeError:  # behind an end of file
        transport.abort()
