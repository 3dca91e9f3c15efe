"""What is written in one turn of the event loop goes out together.

A write wakes whoever waits at the other end, which costs more than the bytes while he sleeps. In
a crowd several requests are ready at once, and so are their writes: behind the last of them the
other end is woken once, and is still awake for the rest (docs/decisions/010).
"""

import asyncio

MOST_LETTERS = 16

Message = tuple[bytes, ...]
"""A message as it goes over the wire, in one part or more."""


class Outbox:
    """Holds messages while others of the same turn may still write theirs.

    Whoever wakes a task that may write counts it as woken, and the task counts that it ran. One
    that was cancelled in between is forgotten with the next delivery from the loop.
    """

    __slots__ = ("_letters", "ran", "woken")

    def __init__(self) -> None:
        self.woken = 0
        self.ran = 0
        self._letters: list[tuple[asyncio.WriteTransport, Message]] = []

    def send(self, transport: asyncio.WriteTransport, message: Message) -> None:
        """Write a message, in this turn of the loop or at the latest before the next one."""
        letters = self._letters
        if self.is_turn_over:
            if letters:
                self.deliver()
            _write(transport, message)
        else:
            if not letters:
                asyncio.get_running_loop().call_soon(self._deliver_behind, self.woken)
            letters.append((transport, message))
            if len(letters) >= MOST_LETTERS:
                self.deliver()

    @property
    def is_turn_over(self) -> bool:
        """Whether nobody else is left who may write in this turn of the loop."""
        return self.woken <= self.ran

    def deliver(self) -> None:
        """Write what is held; to be called before a transport is closed."""
        if self._letters:
            letters, self._letters = self._letters, []
            for transport, message in letters:
                _write(transport, message)

    def _deliver_behind(self, woken: int) -> None:
        """Deliver behind all who had been woken by then: the loop keeps their order."""
        self.ran = max(self.ran, woken)
        self.deliver()


def _write(transport: asyncio.WriteTransport, message: Message) -> None:
    if not transport.is_closing():
        for part in message:
            transport.write(part)
