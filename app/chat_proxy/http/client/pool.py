"""httpx's vocabulary over connections of our own, which aiohttp dials: byte for byte.

aiohttp's `TCPConnector` knows names, happy eyeballs and certificates. What lies above it (pool,
reader, `ClientSession` with cookies, redirects and decompression) is either what a proxy must not
have or costs more than the rest of a request: docs/decisions/002 has the measurements.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, cast

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from chat_proxy.http.client.connection import (
    READ_BYTES,
    Connection,
    NotHttp,
    ReusedConnectionClosed,
)
from chat_proxy.http.client.idle_connections import IdleConnections
from chat_proxy.http.client.resolver import CachingResolver
from chat_proxy.http.headers import RawHeaders, head_of
from chat_proxy.http.write_batch import Message, WriteBatch

# Of the time to connect in; the rest is for an address that was good before.
RESOLVING_SHARE = 0.8
# Longer bodies are not copied behind their heads, but written on their own.
JOINED_BYTES = 64 * 1024
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)


class NameNotResolved(httpx.ConnectError):
    """The host's name has no address."""


class TlsFailed(httpx.ConnectError):
    """The certificate or the handshake was refused."""


class Dialler(aiohttp.TCPConnector):
    """aiohttp's way to an address, ending in a connection of our kind."""

    def __init__(self, made: Callable[[], Connection], **options: Any) -> None:
        super().__init__(limit=0, ttl_dns_cache=10, **options)
        self._factory = made  # type: ignore[assignment]

    async def dial(self, request: aiohttp.ClientRequest) -> Connection:
        """Return a new connection to where the request goes."""
        connection: Any = await self._create_connection(request, [], _NO_TIMEOUT)
        return cast("Connection", connection)


@dataclass(frozen=True, slots=True)
class Target:
    """An address, taken apart once: what is dialled, and what the request says."""

    dial: aiohttp.ClientRequest
    key: str
    host: bytes
    path: bytes


class ConnectionPool(httpx.AsyncBaseTransport):
    """Sends requests over kept-alive connections; make it in the event loop that uses it.

    `send` is for the hot path: it takes and gives bare headers. `handle_async_request` is the same
    for whoever speaks httpx.
    """

    def __init__(
        self,
        tls: ssl.SSLContext,
        write_batch: WriteBatch,
        *,
        connect_seconds: float,
        keep_alive_seconds: float,
    ) -> None:
        resolver = CachingResolver(ThreadedResolver(), connect_seconds * RESOLVING_SHARE)
        self._dialler = Dialler(self._new_connection, ssl=tls, resolver=resolver)
        self._connect_seconds = connect_seconds
        self._tls = tls
        self._write_batch = write_batch
        self._loop = asyncio.get_running_loop()
        self.kept = IdleConnections(keep_alive_seconds, self._loop)
        self._open: set[Connection] = set()
        self._dialling: Counter[str] = Counter()
        self._buffer = memoryview(bytearray(READ_BYTES))

    @property
    def busy(self) -> int:
        """The connections whose answer is awaited or being read."""
        return len(self._open) - self.kept.count

    def is_dialling(self, target: Target) -> bool:
        """Tell whether somebody waits for a new connection to this address."""
        return self._dialling[target.key] > 0

    def target(self, url: httpx.URL) -> Target:
        """Take an address apart."""
        address = URL.build(scheme=url.scheme, host=url.host, port=url.port, path="/")
        dial = aiohttp.ClientRequest("GET", address, ssl=self._tls)
        return Target(dial, f"{url.scheme}://{address.authority}", url.netloc, url.raw_path)

    async def send(self, target: Target, message: Message, *, fresh: bool = False) -> Connection:
        """Send a whole request and return its connection when the answer's headers are in."""
        connection = None if fresh else self.kept.take(target.key)
        if connection is None:
            connection = await self._dial(target)
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

    async def _dial(self, target: Target) -> Connection:
        self._dialling[target.key] += 1
        try:
            with AIOHTTP_ERRORS:
                async with asyncio.timeout(self._connect_seconds):
                    connection = await self._dialler.dial(target.dial)
        finally:
            self._dialling[target.key] -= 1
        connection.key = target.key
        self._open.add(connection)
        return connection

    def _new_connection(self) -> Connection:
        return Connection(self._loop, self._open.discard, self._buffer, self._write_batch)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Do the same in httpx's words."""
        target = self.target(request.url)
        headers = [header for header in request.headers.raw if header[0].lower() != b"host"]
        body = await request.aread()
        answering = await self.send(target, wire_form(request.method, target, headers, body))
        stream = AnswerStream(answering, self.kept)
        return httpx.Response(answering.status, headers=answering.headers, stream=stream)

    async def aclose(self) -> None:
        """Close every connection."""
        self.kept.close()
        for connection in list(self._open):
            connection.break_off()
        await self._dialler.close()


class Answer:
    """An answer's body as it arrives; its connection is kept if it is read whole."""

    __slots__ = ("_connection", "_kept", "is_whole")

    def __init__(self, connection: Connection, kept: IdleConnections) -> None:
        self._connection: Connection | None = connection
        self._kept = kept
        self.is_whole = False
        if connection.is_read:
            self.let_go()

    @property
    def has_news(self) -> bool:
        """Whether there is something to read without waiting, or nothing more to come."""
        return self._connection is None or self._connection.has_news

    def take_whole(self) -> bytes | None:
        """Return the whole body if it has arrived, and nothing of it was read."""
        connection = self._connection
        if connection is None or not connection.is_whole:
            return None
        chunk = connection.take()
        self.let_go()
        return chunk

    async def read_some(self) -> bytes:
        """Return what has arrived, waiting for it if need be; nothing at the end."""
        connection = self._connection
        if connection is None:
            return b""
        while not connection.has_news:
            await connection.news()
            connection.write_batch.run()
        chunk = connection.take()
        if connection.is_whole:
            self.let_go()
        return chunk

    def let_go(self) -> None:
        """Keep the connection if the answer was read to its end, else close it; safe to repeat."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self.is_whole = connection.is_read
        if connection.may_be_kept:
            self._kept.put(connection)
        else:
            connection.break_off()


class AnswerStream(Answer, httpx.AsyncByteStream):
    """The same for whoever speaks httpx."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self.read_some():
            yield chunk

    async def aclose(self) -> None:
        """Let go of the connection."""
        self.let_go()


def wire_form(method: str, target: Target, headers: RawHeaders, body: bytes) -> Message:
    """Return a request as it goes over the wire."""
    first_lines = b"%b %b HTTP/1.1\r\nhost: %b" % (method.encode(), target.path, target.host)
    try:
        head = head_of(first_lines, headers)
    except ValueError as error:
        raise httpx.LocalProtocolError(str(error)) from error
    return (head + body,) if len(body) <= JOINED_BYTES else (head, body)


class AiohttpErrors:
    """Turns what aiohttp raises into httpx's errors; nothing else of aiohttp leaves this module."""

    def __enter__(self) -> None:
        """Nothing is held, so one of these serves all."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        places: TracebackType | None,
    ) -> None:
        if isinstance(error, _FOREIGN):
            raise_as_httpx(error)


def raise_as_httpx(error: BaseException) -> NoReturn:
    """Raise the httpx error that means the same."""
    for foreign, ours in _MEANINGS:
        if isinstance(error, foreign):
            raise ours(type(error).__name__) from error
    raise httpx.NetworkError(type(error).__name__) from error


# Read top to bottom: the first that fits is taken, so the special stands before the general.
_MEANINGS: tuple[tuple[type[BaseException], type[httpx.TransportError]], ...] = (
    (aiohttp.ClientConnectorDNSError, NameNotResolved),
    (aiohttp.ClientSSLError, TlsFailed),
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.InvalidURL, httpx.ConnectError),
    (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
    (asyncio.TimeoutError, httpx.ConnectTimeout),
    (HttpProcessingError, NotHttp),
    (aiohttp.ClientPayloadError, httpx.ReadError),
    (aiohttp.ServerDisconnectedError, httpx.ReadError),
    (aiohttp.ClientConnectionError, httpx.ReadError),
    (aiohttp.ClientError, httpx.ProtocolError),
    (ssl.SSLError, TlsFailed),
    (OSError, httpx.ReadError),
)
_FOREIGN = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError)
AIOHTTP_ERRORS = AiohttpErrors()
