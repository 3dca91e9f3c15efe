"""What is written in one turn of the event loop goes out together, to clients and upstreams.

A write wakes whoever waits at the other end, which costs more than the bytes while he sleeps. In
a crowd several requests are ready at once, and so are their writes: behind the last of them the
other end is woken once, and is still awake for the rest (docs/decisions/010).
"""

import asyncio
from time import perf_counter

MOST_LETTERS = 16
MOST_SECONDS = 0.001

Message = tuple[bytes, ...]
"""A message as it goes over the wire, in one part or more."""


class Outbox:
    """Holds messages while others of the same turn may still write theirs.

    Whoever wakes a task that may write says `wake`, and the task says `run`. One that was cancelled
    in between is forgotten with the next delivery from the loop.
    """

    __slots__ = ("_held_since", "_letters", "_ran", "_woken")

    def __init__(self) -> None:
        self._woken = 0
        self._ran = 0
        self._held_since = 0.0
        self._letters: list[tuple[asyncio.WriteTransport, Message]] = []

    def wake(self) -> None:
        """Note that a task will run which may write."""
        self._woken += 1

    def run(self) -> None:
        """Note that it runs; what was held for long does not wait for its work as well."""
        self._ran += 1
        if self._letters and perf_counter() - self._held_since > MOST_SECONDS:
            self.deliver()

    @property
    def is_turn_over(self) -> bool:
        """Whether nobody else is left who may write in this turn of the loop."""
        return self._woken <= self._ran

    def send(self, transport: asyncio.WriteTransport, message: Message) -> None:
        """Write a message, at the latest in the loop's next turn before whatever that one wakes."""
        letters = self._letters
        if self.is_turn_over:
            if letters:
                self.deliver()
            _write(transport, message)
            return
        if not letters:
            self._held_since = perf_counter()
            asyncio.get_running_loop().call_soon(self._deliver_behind, self._woken)
        letters.append((transport, message))
        if len(letters) >= MOST_LETTERS:
            self.deliver()

    def deliver(self) -> None:
        """Write what is held; to be called before a transport is closed."""
        if self._letters:
            letters, self._letters = self._letters, []
            for transport, message in letters:
                _write(transport, message)

    def _deliver_behind(self, woken: int) -> None:
        """Deliver behind all who had been woken by then: the loop keeps their order."""
        self._ran = max(self._ran, woken)
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
