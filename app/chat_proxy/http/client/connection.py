"""One connection to an upstream: a request is written whole, its answer arrives in pieces."""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools
import httpx

from chat_proxy.http.client.socket_state import SocketState
from chat_proxy.http.headers import NUL, RawHeaders
from chat_proxy.http.write_batch import Message, WriteBatch

# Together with the buffers towards a client that reads slowly: at most 128 KiB per stream.
READ_BYTES = 32 * 1024
READ_BUFFER_BYTES = 24 * 1024
MAX_HEADER_BYTES = 32 * 1024
MAX_HEADERS = 128
# Requests up to this size are sent as soon as they are written, whether or not they are read.
SURELY_SENT_BYTES = 16 * 1024
CONTENT_TOO_LARGE = 413


class NotHttp(httpx.RemoteProtocolError):
    """The answer is not HTTP, or its headers are too large."""


class ReusedConnectionClosed(httpx.RemoteProtocolError):
    """A kept-alive connection was closed before the first byte of this answer."""


class NotWritten(httpx.WriteError):
    """A kept-alive connection was closed or spoiled before this request was written to it."""


class Connection(asyncio.BufferedProtocol):
    """Send one request at a time; the connection may be kept when the answer is complete."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_lost: Callable[["Connection"], object],
        buffer: memoryview,
        write_batch: WriteBatch,
    ) -> None:
        """Read into a buffer that all connections of a loop share: it is emptied at once."""
        self.key = ""
        self.idle_since = 0.0
        self.status = 0
        self.headers: RawHeaders = []
        self.is_whole = True
        self.has_head = False
        self._loop = loop
        self._on_lost = on_lost
        self._buffer = buffer
        self.write_batch = write_batch
        self._parser = lenient_parser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: httpx.TransportError | None = None
        self._was_used = False
        self._was_heard = False
        self._is_unwritten = False
        self._is_large = False
        self._head_bytes_left = 0
        self._is_framed = False
        self._keeps_alive = False
        self._is_paused = False
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    # Called by the pool

    def ask(self, message: Message) -> None:
        """Write a request; `news` completes as its answer arrives."""
        self.is_whole = self.has_head = self._was_heard = self._is_framed = False
        self.headers = []
        self._head_bytes_left = MAX_HEADER_BYTES
        self._is_unwritten = self._was_used
        self._is_large = sum(map(len, message)) > SURELY_SENT_BYTES
        if self._transport is not None:
            look = self._is_clean if self._was_used else None
            self.write_batch.send(self._transport, message, look)

    def _is_clean(self) -> bool:
        """Look at a kept connection at the moment of writing: what it holds was not asked for.

        The loop may not have read it yet, and would take it for the answer to this request.
        """
        if self._socket.has_input():
            self._refuse()
            return False
        self._is_unwritten = False
        return True

    def _refuse(self) -> None:
        """Close without having written the request."""
        self._fail(NotWritten("bytes or an end without a request"))
        self.break_off()
        self._notify()

    @property
    def is_stale(self) -> bool:
        """Whether an earlier answer was received on it, and not a byte of this one."""
        return self._was_used and not self._was_heard

    @property
    def has_news(self) -> bool:
        """Whether there is something to take, or nothing more will come."""
        return self.is_whole or bool(self._pieces)

    def news(self) -> asyncio.Future[None]:
        """Return a future for the next event on the connection; raise if it has failed."""
        if self._error is not None:
            raise self._error
        if self._transport is None:
            raise httpx.ReadError("closed")
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def take(self) -> bytes:
        """Return the body received so far, and resume reading."""
        pieces = self._pieces
        chunk = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held_bytes = 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return chunk

    @property
    def is_read(self) -> bool:
        """Whether the answer was read to its end."""
        return self.is_whole and not self._pieces

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed."""
        return self._transport is None

    @property
    def may_be_kept(self) -> bool:
        """Whether another request may be sent on it."""
        transport = self._transport
        if not self._keeps_alive or transport is None:
            return False
        # An upstream may answer before it has read the whole request, and then stop reading.
        return self.is_whole and not self._pieces and not transport.get_write_buffer_size()

    def break_off(self) -> None:
        """Close at once: a plain close waits until the upstream has read what is unsent."""
        self._keeps_alive = False
        if self._transport is not None:
            self._transport.abort()

    def _notify(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            self.write_batch.wake()
            waiter.set_result(None)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be ready for a request."""
        self._transport = cast("asyncio.Transport", transport)
        self._socket = SocketState(transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's own signature
        """Return the buffer for the next read."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse, and pause reading while too much waits to be taken."""
        if self.is_whole:
            # Bytes without a request: they are no answer to the next one.
            self.break_off()
            return
        if self._is_unwritten:
            self._refuse()
            return
        self._was_heard = True
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except httptools.HttpParserUpgrade:
            self._keeps_alive = False
        except httptools.HttpParserError as error:
            self._fail(NotHttp(type(error).__name__))
            self.break_off()
        if not self.has_head:
            self._head_bytes_left -= nbytes
            if self._head_bytes_left <= 0:
                self._fail(NotHttp("headers without end"))
                self.break_off()
        if self._held_bytes > READ_BUFFER_BYTES and not self._is_paused:
            self._pause()
        self._notify()

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete an answer that ends with the connection; any other is broken if not whole."""
        self._transport = None
        if exc is None and self.has_head and not self._is_framed:
            self.is_whole = True
        error = NotWritten if self._is_unwritten else httpx.ReadError
        self._fail(error(type(exc).__name__ if exc else "closed"))
        self._notify()
        self._on_lost(self)

    def _fail(self, error: httpx.TransportError) -> None:
        """Set why no more will come; the first reason counts."""
        self._keeps_alive = False
        if self._error is None and not self.is_whole:
            self._error = error

    # Called by the parser

    def on_message_begin(self) -> None:
        """Notice the beginning of another answer after a whole one."""
        if self.is_whole:
            self._keeps_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers after the body are dropped."""
        if self.has_head or NUL in value:
            return
        name = name.lower()
        self.headers.append((name, value))
        if name in _FRAMING:
            self._is_framed = name == b"content-length" or b"chunked" in value.lower()

    def on_headers_complete(self) -> None:
        """Begin the answer; an interim 1xx answer is dropped."""
        if self.has_head:
            self._keeps_alive = False  # a second answer without a request
            return
        if len(self.headers) > MAX_HEADERS or self._is_head_too_large():
            raise NotHttp("headers without end")
        status = self._parser.get_status_code()
        if status < 200 and status != 101:
            self.headers = []
            return
        self.status = status
        self.has_head = self._was_used = True
        self._keeps_alive = self._parser.should_keep_alive() and not self._is_early(status)

    def _is_early(self, status: int) -> bool:
        """Return whether the upstream answered without reading the request to its end.

        It may never read the rest, behind which the next request would wait.
        """
        if status == CONTENT_TOO_LARGE:
            return True
        return self._is_large and self._transport is not None and self._socket.unsent_bytes() > 0

    def _is_head_too_large(self) -> bool:
        """Measure a head that came in several reads; one read cannot hold more than the limit."""
        if self._head_bytes_left == MAX_HEADER_BYTES:
            return False
        return sum([len(name) + len(value) for name, value in self.headers]) > MAX_HEADER_BYTES

    def on_body(self, body: bytes) -> None:
        """Hold a piece until it is taken; bytes after a whole answer are dropped."""
        if self.is_whole:
            return
        self._pieces.append(body)
        self._held_bytes += len(body)

    def on_message_complete(self) -> None:
        """Mark the answer as complete."""
        if self.has_head:
            self.is_whole = True


_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


def lenient_parser(protocol: Connection) -> httptools.HttpResponseParser:
    """Return a parser with the leniencies that all HTTP clients have."""
    parser = httptools.HttpResponseParser(protocol)
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_cr_before_lf=True,
        lenient_spaces_after_chunk_size=True,
    )
    return parser
