"""What a misbehaviour can do with its request and its connection."""

import asyncio
from collections.abc import Callable
from random import Random

from tools.crosstalk.upstream.line import Asked, Gone, Line
from tools.crosstalk.upstream.open_lines import OpenLines


class Turn:
    """One request in the hands of a misbehaviour."""

    def __init__(self, line: Line, asked: Asked, lines: OpenLines) -> None:
        self.asked = asked
        self.line = line
        self.dice: Random = asked.dice
        self._lines = lines

    async def send(self, *parts: bytes) -> None:
        """Send bytes of the answer, each part with a call of its own."""
        for part in parts:
            await self.line.send(part, self.asked.canary)

    async def pause(self, most_seconds: float) -> None:
        """Wait for a random time."""
        await asyncio.sleep(self.dice.uniform(0, most_seconds))

    def later(self, most_seconds: float, data: bytes) -> None:
        """Send bytes that nobody asked for after a random time, whatever happens until then."""
        self._at(most_seconds, lambda: self._lines.send_unasked(self.line, data, self.asked))

    def later_elsewhere(self, most_seconds: float, data: bytes) -> None:
        """Send bytes on another connection after a random time."""
        line = self._lines.another(self.line, self.dice)
        self._at(most_seconds, lambda: self._lines.send_unasked(line, data, self.asked))

    def greet_next(self, data: bytes) -> None:
        """Send bytes on the next new connection before anything was asked there."""
        self._lines.greet_next(data, self.asked)

    def end_later(self, most_seconds: float, end: Callable[[], None]) -> None:
        """End the connection after a random time."""
        self._at(most_seconds, end)

    def _at(self, most_seconds: float, do: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(self.dice.uniform(0, most_seconds), do)

    async def silence(self) -> None:
        """Say no more until the proxy closes."""
        while True:
            await self.line.next_request()

    def close(self) -> None:
        """Close the connection and end this turn."""
        self.line.close()
        raise Gone

    def reset(self) -> None:
        """Break the connection and end this turn."""
        self.line.reset()
        raise Gone
