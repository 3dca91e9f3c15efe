"""One connection of the misbehaving upstream, read by callbacks: the order of events is exact."""

import asyncio
import re
import socket
import struct
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tools.crosstalk.ledger import Arrival, Ledger, Order, Sent
from tools.crosstalk.looking_proxy import Looks

READ_BYTES = 64 * 1024
_PLAN = re.compile(rb"act=(\w+) (cnry-[0-9a-f]{12})")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NO_LINGER = struct.pack("ii", 1, 0)


class Gone(Exception):
    """The connection is closed."""


@dataclass(frozen=True)
class Asked:
    """A request as far as it was read: what to do, and the canary to say."""

    number: int
    act: str
    canary: bytes
    is_stream: bool
    is_chat: bool

    @property
    def dice(self) -> Random:
        """Random numbers that are the same for the same request."""
        return Random(self.canary)


class Line:
    """Read requests and send bytes; each send is noted with the requests that had arrived."""

    def __init__(
        self, number: int, connection: socket.socket, ledger: Ledger, looks: Looks
    ) -> None:
        self.number = number
        self.requests = 0
        self.answered = 0
        self._socket = connection
        self._ledger = ledger
        self._looks = looks
        self._port: int = connection.getpeername()[1]
        self._loop = asyncio.get_running_loop()
        self._held = b""
        self._asked: deque[Asked] = deque()
        self._body_left = 0
        self._is_within = False
        self._is_open = True
        self._has_ended = False
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        connection.setblocking(False)
        self._loop.add_reader(connection, self._on_input)
        ledger.watch(self._arrived)

    async def next_request(self) -> Asked:
        """Return the next request as soon as its canary was read; its body may still arrive."""
        while not self._asked:
            await self._wait()
        return self._asked.popleft()

    async def read_body(self) -> None:
        """Wait until the request was read to its end."""
        while self._is_within:
            await self._wait()

    async def _wait(self) -> None:
        if self._has_ended or not self._is_open:
            raise Gone
        self._news.clear()
        await self._news.wait()

    def _on_input(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._take(data)
        else:
            self._has_ended = True
            self.stop_reading()
        self._news.set()

    def _take(self, data: bytes) -> None:
        """Take the pieces of a request, and of the next: an unasked answer lets it come early."""
        while data:
            if not self._is_within:
                self._is_within = True
                self.requests += 1
            if self._body_left:
                piece, data = data[: self._body_left], data[self._body_left :]
                self._body_left -= len(piece)
                self._is_within = self._body_left > 0
            else:
                data = self._take_head(self._held + data)

    def _take_head(self, data: bytes) -> bytes:
        """Read a request's beginning if it has arrived; return what comes after it."""
        head, blank, body = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        plan = _PLAN.search(body[:size])
        if not blank or (size > len(body) and not plan):
            self._held = data
            return b""
        self._held = b""
        self._body_left = max(0, size - len(body))
        self._is_within = self._body_left > 0
        self._asked.append(self._asked_by(head, body, plan))
        return body[size:]

    def _asked_by(self, head: bytes, body: bytes, plan: re.Match[bytes] | None) -> Asked:
        if plan is None:
            return Asked(self.requests, "listing", b"", is_stream=False, is_chat=False)
        act = plan[1].decode()
        looked = self._looks.at(self._port, self.requests)
        self._ledger.arrived(plan[2], Arrival(self.number, self.requests, act, looked))
        is_stream = b'"stream": true' in body[:80]
        is_chat = b"/chat/" in head.partition(b"\r\n")[0]
        return Asked(self.requests, act, plan[2], is_stream, is_chat)

    def stop_reading(self) -> None:
        """Leave in the kernel what comes from now on, until something is sent."""
        if self._is_open:
            self._loop.remove_reader(self._socket)

    def _arrived(self) -> int:
        """Return how many requests have arrived; read first what is in the kernel's buffer."""
        if self._is_open and not self._has_ended:
            self._on_input()
        return self.requests

    async def send(self, data: bytes, canary: bytes) -> None:
        """Send the bytes, however long that takes."""
        while data := data[self.put(data, canary) :]:
            await self._until_writable()

    async def _until_writable(self) -> None:
        self._writable.clear()
        self._loop.add_writer(self._socket, self._writable.set)
        await self._writable.wait()
        if self._is_open:
            self._loop.remove_writer(self._socket)

    def put(self, data: bytes, canary: bytes) -> int:
        """Send what the kernel takes at once; return how much that is."""
        if not self._is_open:
            raise Gone
        before = self._arrived()
        try:
            count = self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Gone from error
        ended = time.monotonic_ns()
        self._ledger.sent(canary, Sent(self.number, before, self._arrived(), ended))
        return count

    def put_unasked(self, data: bytes, canary: bytes) -> Order | None:
        """Send bytes that nobody asked for; return when the next request came, None if closed."""
        if not self._is_open:
            return None
        before = self._arrived()
        try:
            self.put(data, canary)
        except Gone:
            return None
        if before > self.answered:
            return Order.AFTER
        return Order.MEANWHILE if self._arrived() > self.answered else Order.BEFORE

    def half_close(self) -> None:
        """Send an end, and read on."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Break the connection with a RST."""
        if self._is_open:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._is_open:
            self._arrived()
            self._ledger.forget(self._arrived)
            self.stop_reading()
            self._loop.remove_writer(self._socket)
            self._is_open = False
            self._socket.close()
            self._news.set()
            self._writable.set()
