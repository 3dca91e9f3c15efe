"""All connections of the upstream: what is sent on another one than it was asked on."""

from collections import Counter
from random import Random

from tools.crosstalk.ledger import Order
from tools.crosstalk.upstream.line import Asked, Line


class OpenLines:
    """The open connections, what new ones are greeted with, and how often that happened."""

    def __init__(self) -> None:
        self.unasked: Counter[tuple[str, Order]] = Counter()
        """How often bytes were sent without being asked for, by misbehaviour and order."""
        self._lines: list[Line] = []
        self._greetings: list[tuple[bytes, Asked]] = []

    def opened(self, line: Line) -> None:
        """Add a connection, and greet it with what was kept for it."""
        self._lines.append(line)
        if self._greetings:
            self.send_unasked(line, *self._greetings.pop())

    def closed(self, line: Line) -> None:
        """Remove a connection."""
        self._lines.remove(line)

    def another(self, line: Line, dice: Random) -> Line:
        """Return any other connection, the same one if there is no other."""
        others = [other for other in self._lines if other is not line]
        return dice.choice(others) if others else line

    def greet_next(self, data: bytes, asked: Asked) -> None:
        """Send these bytes on the next new connection before anything else."""
        self._greetings.append((data, asked))

    def greet_no_more(self) -> None:
        """Send nothing more on new connections."""
        self._greetings.clear()

    def send_unasked(self, line: Line, data: bytes, asked: Asked) -> None:
        """Send bytes on a connection where they were not asked for."""
        order = line.put_unasked(data, asked.canary)
        if order is not None:
            self.unasked[asked.act, order] += 1
