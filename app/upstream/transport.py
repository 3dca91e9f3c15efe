"""httpx's vocabulary over aiohttp's connection pool: one request, one response, byte for byte.

`TCPConnector` keeps, ages and verifies the connections, and its `ResponseHandler` parses the
answers; what `ClientSession` adds on top (cookies, redirects, decompression, two tasks a request)
is what a proxy must not have. docs/decisions/002 has the measurements.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.helpers import _EXC_SENTINEL
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.resolver import ThreadedResolver
from aiohttp.streams import StreamReader
from yarl import URL

from app.upstream.headers import RawHeaders
from app.upstream.resolver import RememberingResolver

# Of the time to connect in; the rest is for an address that was good before.
RESOLVING_SHARE = 0.8
READ_BUFFER_BYTES = 32 * 1024
MAX_HEADER_BYTES = 32 * 1024
MAX_HEADERS = 128


class NameNotResolved(httpx.ConnectError):
    """The host's name has no address."""


class TlsFailed(httpx.ConnectError):
    """The certificate or the handshake was refused."""


class NotHttp(httpx.RemoteProtocolError):
    """What came back is not HTTP, or has headers without end."""


class ReusedConnectionClosed(httpx.RemoteProtocolError):
    """A kept-alive connection was closed before it gave a single byte of this answer."""


class Handler(ResponseHandler):
    """aiohttp's side of a connection, which also knows whether it was used and has been heard."""

    used = False
    heard_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Note that the upstream said something."""
        self.heard_bytes += len(data)
        super().data_received(data)

    def set_exception(self, exc: BaseException, exc_cause: BaseException = _EXC_SENTINEL) -> None:
        """Break an unfinished answer too; aiohttp would let its reader wait for more."""
        if self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(exc, exc_cause)
        super().set_exception(exc, exc_cause)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Break an unfinished answer; aiohttp takes a reset for the end of one without length."""
        payload = self._payload
        if exc is not None and payload is not None and not payload.is_eof():
            payload.set_exception(aiohttp.ClientPayloadError("reset"), exc)
        super().connection_lost(exc)


class Pool(aiohttp.TCPConnector):
    """aiohttp's pool, making connections of our kind."""

    def __init__(self, tls: ssl.SSLContext, **options: Any) -> None:
        super().__init__(ssl=tls, limit=0, ttl_dns_cache=10, **options)
        self._factory = partial(Handler, loop=self._loop)  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Target:
    """An address, taken apart once: what the pool dials, and what the request says."""

    dial: aiohttp.ClientRequest
    host: bytes
    path: bytes


class Answer(NamedTuple):
    """Status and headers of an answer, and its body as it arrives."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    stream: "ResponseStream"


class PooledTransport(httpx.AsyncBaseTransport):
    """Sends requests over kept-alive connections; make it in the event loop that uses it.

    `send` is for the hot path: it takes and gives bare headers. `handle_async_request` is the same
    for whoever speaks httpx.
    """

    def __init__(
        self, tls: ssl.SSLContext, *, connect_seconds: float, keep_alive_seconds: float
    ) -> None:
        resolver = RememberingResolver(ThreadedResolver(), connect_seconds * RESOLVING_SHARE)
        self._pool = Pool(tls, resolver=resolver, keepalive_timeout=keep_alive_seconds)
        self._fresh = Pool(tls, resolver=resolver, force_close=True)
        self._timeout = aiohttp.ClientTimeout(connect=connect_seconds)
        self._tls = tls

    def target(self, url: httpx.URL) -> Target:
        """Take an address apart."""
        address = URL.build(scheme=url.scheme, host=url.host, port=url.port, path="/")
        dial = aiohttp.ClientRequest("GET", address, ssl=self._tls)
        return Target(dial, url.netloc, url.raw_path)

    async def send(self, target: Target, message: bytes, *, fresh: bool = False) -> Answer:
        """Send a whole request and return its answer as soon as status and headers are in."""
        pool = self._fresh if fresh else self._pool
        with AIOHTTP_ERRORS:
            connection = await pool.connect(target.dial, traces=[], timeout=self._timeout)
        try:
            return await _exchange(message, connection)
        except BaseException:
            _break_off(connection)
            raise

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Do the same in httpx's words."""
        target = self.target(request.url)
        headers = [header for header in request.headers.raw if header[0].lower() != b"host"]
        body = await request.aread()
        answer = await self.send(target, wire_form(request.method, target, headers, body))
        return httpx.Response(answer.status, headers=list(answer.headers), stream=answer.stream)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.close()
        await self._fresh.close()


async def _exchange(message: bytes, connection: Connection) -> Answer:
    protocol = connection.protocol
    if not isinstance(protocol, Handler):  # pragma: no cover - Pool makes no others
        raise TypeError
    if protocol.used and protocol.should_close:
        # It spoke unasked while nobody listened: that is no answer to this request.
        raise ReusedConnectionClosed("unasked")
    protocol.heard_bytes = 0
    protocol.set_response_params(
        read_until_eof=True,
        auto_decompress=False,
        read_bufsize=READ_BUFFER_BYTES,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        max_headers=MAX_HEADERS,
    )
    try:
        head, payload = await _send_and_read_head(message, protocol)
    except httpx.TransportError as error:
        if protocol.used and not protocol.heard_bytes:
            raise ReusedConnectionClosed(str(error)) from error
        raise
    if protocol.heard_bytes > MAX_HEADER_BYTES < _header_bytes(head):
        raise NotHttp("headers without end")
    protocol.used = True
    return Answer(head.code, head.raw_headers, ResponseStream(connection, payload))


def _header_bytes(head: RawResponseMessage) -> int:
    return sum(len(name) + len(value) for name, value in head.raw_headers)


def _break_off(connection: Connection) -> None:
    """Close at once: a plain close waits until the upstream has taken what is unsent."""
    if connection.transport is not None:
        connection.transport.abort()
    connection.close()


class ResponseStream(httpx.AsyncByteStream):
    """The answer's bytes as they arrive; the connection goes back to the pool only when whole."""

    def __init__(self, connection: Connection, payload: StreamReader) -> None:
        self._connection = connection
        self._payload = payload

    async def read_some(self) -> bytes:
        """Return what has arrived, waiting for it if need be; nothing at the end."""
        try:
            chunk = await self._payload.readany()
        except _FOREIGN as error:
            rest = self._rescued()
            if rest:
                return rest
            raise_as_httpx(error)
        if not chunk:
            self._connection.release()
        return chunk

    def _rescued(self) -> bytes:
        """Return the bytes that came in before the connection broke, which readany() withholds."""
        return self._payload._read_nowait(-1)  # noqa: SLF001

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self.read_some():
            yield chunk

    @property
    def is_whole(self) -> bool:
        """Whether the answer was read to its end."""
        return self._payload.at_eof()

    def let_go(self) -> None:
        """Close the connection unless the answer was read to its end; safe to call twice."""
        if self.is_whole:
            self._connection.release()
        else:
            _break_off(self._connection)

    async def aclose(self) -> None:
        """Do the same for callers that speak httpx."""
        self.let_go()


async def _send_and_read_head(
    message: bytes, protocol: Handler
) -> tuple[RawResponseMessage, StreamReader]:
    with AIOHTTP_ERRORS:
        transport = protocol.transport
        if transport is None:
            raise aiohttp.ServerDisconnectedError
        transport.write(message)
        while True:
            head, payload = await protocol.read()
            if head.code >= 200 or head.code == 101:
                return head, payload


def wire_form(method: str, target: Target, headers: RawHeaders, body: bytes) -> bytes:
    """Return a request as it goes over the wire."""
    lines = [method.encode(), b" ", target.path, b" HTTP/1.1\r\nhost: ", target.host, b"\r\n"]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines.append(b"\r\n")
    head = b"".join(lines)
    if head.count(b"\n") != len(headers) + 3 or b"\0" in head:
        raise httpx.LocalProtocolError("a header holds a line break")
    return head + body


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
