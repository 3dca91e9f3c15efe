"""One connection to an upstream: a request is written whole, its answer arrives in pieces."""

import asyncio
from collections.abc import Callable
from typing import cast

import httpx

from chat_proxy.http.client.answer_reader import AnswerReader, NotHttp
from chat_proxy.http.client.socket_state import SocketState
from chat_proxy.http.write_batch import Message, WriteBatch

# Together with the buffers towards a client that reads slowly: at most 128 KiB per stream.
READ_BYTES = 32 * 1024
READ_BUFFER_BYTES = 24 * 1024
# Requests up to this size are sent as soon as they are written, whether or not they are read.
SURELY_SENT_BYTES = 16 * 1024
CONTENT_TOO_LARGE = 413
# A close that follows a request so soon, and two round trips, was on its way before the request.
CLOSED_BEFORE_SECONDS = 0.025

OnPiece = Callable[[bytes], bool]
"""Called with a piece of a body in the callback that reads it; returns whether it was taken."""


class ReusedConnectionClosed(httpx.RemoteProtocolError):
    """A kept-alive connection was closed before the upstream can have worked on this request."""


class NotWritten(httpx.WriteError):
    """A connection was closed or spoiled before this request was written to it."""


class Connection(AnswerReader, asyncio.BufferedProtocol):
    """Send one request at a time; the connection may be kept when the answer is complete."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_lost: Callable[["Connection"], object],
        buffer: memoryview,
        write_batch: WriteBatch,
    ) -> None:
        """Read into a buffer that all connections of a loop share: it is emptied at once."""
        super().__init__()
        self.key = ""
        self.idle_since = 0.0
        self._loop = loop
        self._on_lost = on_lost
        self._buffer = buffer
        self.write_batch = write_batch
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._on_piece: OnPiece | None = None
        self._error: httpx.TransportError | None = None
        self._was_used = False
        self._was_heard = False
        self._is_unwritten = False
        self._is_large = False
        self._is_unsent = False
        self._sent_at = self._lost_at = 0.0
        self._is_paused = False

    # Called by the pool

    def ask(self, message: Message) -> None:
        """Write a request; `news` completes as its answer arrives."""
        self._expect_answer()
        self._was_heard = False
        # A server may send bytes of TLS itself, such as tickets, before the first request.
        is_looked_at = self._was_used or not self._has_tls
        self._is_unwritten = is_looked_at
        self._is_large = len(message) > 1 or len(message[0]) > SURELY_SENT_BYTES
        if self._transport is not None:
            self.write_batch.send(
                self._transport, message, self._is_clean if is_looked_at else None
            )

    def _is_clean(self) -> bool:
        """Look at the connection at the moment of writing: what it holds was not asked for.

        The loop may not have read it yet, and would take it for the answer to this request.
        """
        if self._socket.has_input():
            self._refuse()
            return False
        self._is_unwritten = False
        self._sent_at = self._loop.time()
        return True

    def _refuse(self) -> None:
        """Close without having written the request."""
        self._fail(NotWritten("bytes or an end without a request"))
        self.break_off()
        self._notify()

    @property
    def is_stale(self) -> bool:
        """Whether a kept connection was closed before this request can have been worked on."""
        if not self._was_used or self._was_heard or self._transport is not None:
            return False
        soon = CLOSED_BEFORE_SECONDS + 2 * self._socket.round_trip_seconds
        return self._is_unsent or self._lost_at - self._sent_at < soon

    @property
    def has_news(self) -> bool:
        """Whether there is something to take, or nothing more will come."""
        return self.is_whole or bool(self._pieces)

    def news(self, on_piece: OnPiece | None = None) -> asyncio.Future[None]:
        """Return a future for the next event on the connection; raise if it has failed.

        A piece that `on_piece` takes is no event: the task that waits for one sleeps on.
        """
        if self._error is not None:
            raise self._error
        if self._transport is None:
            raise httpx.ReadError("closed")
        self._on_piece = on_piece
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
        waiter, self._waiter, self._on_piece = self._waiter, None, None
        if waiter is not None and not waiter.done():
            self.write_batch.wake()
            waiter.set_result(None)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be ready for a request."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._socket = SocketState(transport)
        self._has_tls = transport.get_extra_info("sslcontext") is not None

    def pause_writing(self) -> None:
        """Mark that a part of the request is unsent; the loop calls this for a single byte."""
        self._is_unsent = True

    def resume_writing(self) -> None:
        """Mark the request as sent."""
        self._is_unsent = False
        self._sent_at = self._loop.time()

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
        had_head = self.has_head
        try:
            self._read(self._buffer[:nbytes])
        except NotHttp as error:
            self._fail(error)
            self.break_off()
        if self.has_head and not had_head:
            self._was_used = True
            self._keeps_alive = self._keeps_alive and not self._is_early()
        if self._on_piece is not None and self._is_taken(self._on_piece):
            return
        if self._held_bytes > READ_BUFFER_BYTES and not self._is_paused:
            self._pause()
        self._notify()

    def _is_taken(self, on_piece: OnPiece) -> bool:
        """Offer what has arrived to `on_piece`; return whether the waiting task may sleep on.

        It wakes for the end of the body, for an error, and for what was not taken.
        """
        waiter, pieces = self._waiter, self._pieces
        if self.is_whole or self._error is not None or waiter is None or waiter.done():
            return False
        if not pieces:
            return True
        try:
            if not on_piece(pieces[0] if len(pieces) == 1 else b"".join(pieces)):
                return False
        except Exception as error:  # noqa: BLE001 - it is the task's own
            waiter.set_exception(error)
        pieces.clear()
        self._held_bytes = 0
        return True

    def _is_early(self) -> bool:
        """Return whether the upstream answered without reading the request to its end.

        It may never read the rest, behind which the next request would wait.
        """
        if self.status == CONTENT_TOO_LARGE:
            return True
        return self._is_large and self._transport is not None and self._socket.unsent_bytes() > 0

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete an answer that ends with the connection; any other is broken if not whole."""
        self._transport = None
        self._lost_at = self._loop.time()
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
