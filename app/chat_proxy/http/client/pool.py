"""A pool of kept-alive connections, as an httpx transport: byte for byte, without side effects.

httpx's own pool wedges after cancelled requests and costs ten times the CPU; clients above it add
cookies, redirects and decompression, which a proxy must not have (docs/decisions/002).
"""

import asyncio
import ssl
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import AsyncIterator
from operator import attrgetter

import httpx

from chat_proxy.http.client.connection import (
    READ_BYTES,
    Connection,
    NotWritten,
    OnPiece,
    ReusedConnectionClosed,
)
from chat_proxy.http.client.dialler import Dialler, Target, target_of
from chat_proxy.http.client.resolver import CachingResolver, look_up
from chat_proxy.http.headers import RawHeaders, head_of
from chat_proxy.http.write_batch import Message, write_batch_of

# Of the time to connect; the rest is for an address that was good before.
RESOLVING_SHARE = 0.8
# Longer bodies are not copied after their heads, but written on their own.
JOINED_BYTES = 64 * 1024
# Closing takes the kernel about 10 µs each.
CLOSED_AT_ONCE = 50

_idle_since = attrgetter("idle_since")


class IdleConnections:
    """Hold idle connections, keyed by address; those not used in time are closed.

    Those to one address are ordered by time: they are added at the end and taken from there.
    """

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        self._seconds = seconds
        self._loop = loop
        self._idle: dict[str, list[Connection]] = {}
        self._old: deque[Connection] = deque()
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """The number of idle connections that are still open."""
        waiting = (connection for idle in self._idle.values() for connection in idle)
        return sum(not connection.is_lost for connection in waiting)

    def take(self, key: str) -> Connection | None:
        """Return the connection to this address that was used last, None without one."""
        idle = self._idle.get(key)
        oldest = self._loop.time() - self._seconds
        while idle:
            connection = idle.pop()
            if connection.may_be_kept and connection.idle_since >= oldest:
                return connection
            connection.break_off()
        return None

    def put(self, connection: Connection) -> None:
        """Keep a connection whose answer was read to its end."""
        connection.idle_since = self._loop.time()
        self._idle.setdefault(connection.key, []).append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._seconds, self._close_old)

    def close(self) -> None:
        """Close all connections and stop the timer."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self._all():
            connection.break_off()
        self._idle.clear()

    def _all(self) -> list[Connection]:
        return [connection for idle in self._idle.values() for connection in idle]

    def _close_old(self) -> None:
        """Close connections that were idle for too long; run again while some are left."""
        oldest = self._loop.time() - self._seconds
        for key, idle in list(self._idle.items()):
            count = bisect_right(idle, oldest, key=_idle_since)
            self._old.extend(idle[:count])
            del idle[:count]
            if not idle:
                del self._idle[key]
        self._close_some()
        again = bool(self._idle)
        self._sweep = self._loop.call_later(self._seconds, self._close_old) if again else None

    def _close_some(self) -> None:
        """Close a few connections, and more in the loop's next iteration: others wait meanwhile."""
        for _ in range(min(len(self._old), CLOSED_AT_ONCE)):
            self._old.popleft().break_off()
        if self._old:
            self._loop.call_soon(self._close_some)


class Answer:
    """The body of an answer as it arrives; its connection is kept if it is read to the end."""

    __slots__ = ("_connection", "_idle", "is_whole")

    def __init__(self, connection: Connection, idle: IdleConnections) -> None:
        self._connection: Connection | None = connection
        self._idle = idle
        self.is_whole = False
        if connection.is_read:
            self.release()

    @property
    def has_news(self) -> bool:
        """Whether there is something to read without waiting, or nothing more to come."""
        return self._connection is None or self._connection.has_news

    def take_whole(self) -> bytes | None:
        """Return the whole body if it has arrived and none of it was read."""
        connection = self._connection
        if connection is None or not connection.is_whole:
            return None
        chunk = connection.take()
        self.release()
        return chunk

    async def read_some(self, on_piece: OnPiece | None = None) -> bytes:
        """Return what has arrived, waiting for it if needed; empty at the end.

        What arrives during the wait is offered to `on_piece` first; what it takes is not returned.
        """
        connection = self._connection
        if connection is None:
            return b""
        while not connection.has_news:
            await connection.news(on_piece)
            connection.write_batch.run()
        chunk = connection.take()
        if connection.is_whole:
            self.release()
        return chunk

    def release(self) -> None:
        """Keep the connection if the answer was read to its end, else close it; safe to repeat."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self.is_whole = connection.is_read
        if connection.may_be_kept:
            self._idle.put(connection)
        else:
            connection.break_off()


class AnswerStream(Answer, httpx.AsyncByteStream):
    """The same as an httpx stream."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self.read_some():
            yield chunk

    async def aclose(self) -> None:
        """Release the connection."""
        self.release()


class ConnectionPool(httpx.AsyncBaseTransport):
    """Send requests over kept-alive connections; make it in the event loop that uses it.

    `send` is for the hot path: it takes and returns bare headers. `handle_async_request` does the
    same in httpx's types.
    """

    def __init__(
        self, tls: ssl.SSLContext, *, connect_seconds: float, keep_alive_seconds: float
    ) -> None:
        resolver = CachingResolver(look_up, connect_seconds * RESOLVING_SHARE)
        self._dialler = Dialler(resolver, tls, self._new_connection, connect_seconds)
        self._loop = asyncio.get_running_loop()
        self._write_batch = write_batch_of(self._loop)
        self.idle = IdleConnections(keep_alive_seconds, self._loop)
        self._open: set[Connection] = set()
        self._dialling: Counter[str] = Counter()
        self._buffer = memoryview(bytearray(READ_BYTES))

    def is_dialling(self, target: Target) -> bool:
        """Return whether a request waits for a new connection to this address."""
        return self._dialling[target.key] > 0

    async def send(self, target: Target, message: Message, *, fresh: bool = False) -> Connection:
        """Send a whole request and return its connection when the answer's headers are in.

        `fresh` asks for a new connection. A kept one that turns out to be spoiled when the request
        is to be written is replaced by the next.
        """
        while not fresh and (connection := self.idle.take(target.key)) is not None:
            try:
                return await self._exchange(connection, message)
            except NotWritten:
                continue
        return await self._exchange(await self._dial(target), message)

    async def _exchange(self, connection: Connection, message: Message) -> Connection:
        """Write a request and wait for the headers of its answer."""
        try:
            connection.ask(message)
            while not connection.has_head:
                await connection.news()
                self._write_batch.run()
        except BaseException as error:
            connection.break_off()
            if isinstance(error, httpx.ReadError) and connection.is_stale:
                raise ReusedConnectionClosed(str(error)) from error
            raise
        return connection

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send an httpx request and return its answer, the body still arriving."""
        target = target_of(request.url)
        headers = [header for header in request.headers.raw if header[0].lower() != b"host"]
        body = await request.aread()
        message = request_message(request.method, target, headers, body)
        connection = await self.send(target, message)
        stream = AnswerStream(connection, self.idle)
        return httpx.Response(connection.status, headers=connection.headers, stream=stream)

    async def aclose(self) -> None:
        """Close every connection."""
        self.idle.close()
        for connection in list(self._open):
            connection.break_off()
        await self._dialler.close()

    async def _dial(self, target: Target) -> Connection:
        self._dialling[target.key] += 1
        try:
            connection = await self._dialler.dial(target)
        finally:
            self._dialling[target.key] -= 1
        connection.key = target.key
        self._open.add(connection)
        return connection

    def _new_connection(self) -> Connection:
        return Connection(self._loop, self._open.discard, self._buffer, self._write_batch)


def request_message(method: str, target: Target, headers: RawHeaders, body: bytes) -> Message:
    """Return a request as it is written; raise LocalProtocolError if a header would break it."""
    first_lines = b"%b %b HTTP/1.1\r\nhost: %b" % (method.encode(), target.path, target.authority)
    try:
        head = head_of(first_lines, headers)
    except ValueError as error:
        raise httpx.LocalProtocolError(str(error)) from error
    return (head + body,) if len(body) <= JOINED_BYTES else (head, body)
