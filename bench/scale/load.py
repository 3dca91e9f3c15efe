"""Conversations that grow beyond the window, several at once, their requests sent in turn.

Each conversation goes from one target to the next with every request, as behind a load balancer
that knows no sessions.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

from bench.traffic.payloads import TURNS, GrowingChats

CONNECTIONS_PER_CHAT = 3
"""Workers share a port, and the kernel gives them connections: one would stay with one worker."""
SECONDS_PER_REQUEST = 120
_HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer sk-bench\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
)
_COMPACTION = b"x-chat-proxy-compaction: "
_LENGTH = b"content-length: "


@dataclass
class Outcome:
    """What came of a load."""

    requests: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    compactions: Counter[str] = field(default_factory=Counter)
    """The answers by what the proxy says about their compaction."""
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def p50_ms(self) -> float:
        """The middle latency in milliseconds."""
        ordered = sorted(self.latencies) or [0.0]
        return ordered[len(ordered) // 2] * 1e3


class _Connection:
    """One kept-alive connection to a target."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "_Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, body: bytes) -> tuple[int, str]:
        """Send a request; return the status and the kind of compaction of its answer."""
        self._writer.write(_HEAD % len(body) + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        await self._reader.readexactly(int(_value(lines, _LENGTH) or b"0"))
        return int(lines[0].split(b" ", 2)[1]), _value(lines, _COMPACTION).decode()

    def close(self) -> None:
        self._writer.close()


def _value(lines: Sequence[bytes], name: bytes) -> bytes:
    """Return the value of a header, empty if it is missing."""
    return next((line[len(name) :] for line in lines if line.lower().startswith(name)), b"")


async def run(ports: Sequence[int], chats: int, rounds: int) -> Outcome:
    """Send so many conversations at once, one round after the other; each is sent to its end.

    The texts are the same in every run, so that every setup does the same work.
    """
    outcome = Outcome()
    began = time.perf_counter()
    await asyncio.gather(*(_in_turn(ports, number, rounds, outcome) for number in range(chats)))
    outcome.seconds = time.perf_counter() - began
    return outcome


async def _in_turn(ports: Sequence[int], number: int, rounds: int, outcome: Outcome) -> None:
    """Send one conversation after the other, each request on the next connection."""
    targets = islice(cycle(ports), number, number + max(CONNECTIONS_PER_CHAT, len(ports)))
    opened = [await _Connection.open(port) for port in targets]
    next_connection = cycle(opened)
    conversation = GrowingChats(1)
    try:
        for serial in range(rounds * TURNS):
            body = conversation.body(0, number * 1_000_000 + serial)
            await _ask(next(next_connection), body, outcome)
    finally:
        for connection in opened:
            connection.close()


async def _ask(connection: _Connection, body: bytes, outcome: Outcome) -> None:
    began = time.perf_counter()
    status, compaction = await asyncio.wait_for(connection.ask(body), SECONDS_PER_REQUEST)
    outcome.latencies.append(time.perf_counter() - began)
    outcome.requests += 1
    outcome.compactions[compaction] += 1
    if status != 200 or compaction == "failed-open":
        outcome.errors[f"status {status}, compaction {compaction}"] += 1
