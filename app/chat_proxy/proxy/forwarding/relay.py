"""Relay an answer to the client as it arrives.

Bytes are held back only while an error can still become a proper status.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable

from chat_proxy.errors import ClientStalled, UpstreamIdleTimeout
from chat_proxy.http.client.connection import OnPiece
from chat_proxy.http.headers import RawHeaders, values_of
from chat_proxy.proxy.lifecycle.cancellation import Watchdog
from chat_proxy.proxy.request_context import NOT_BUFFERED, RequestContext
from chat_proxy.proxy.routing.request_policy import RequestPolicy
from chat_proxy.upstream.client import Reply
from chat_proxy.wires.answers import Tap

EVENT_STREAM = b"text/event-stream"


class Relay(ABC):
    """Relay one answer from the upstream to the client."""

    def __init__(self, context: RequestContext, policy: RequestPolicy) -> None:
        self._context = context
        self._policy = policy
        self._record = context.record
        self._sink = context.sink

    @abstractmethod
    def run(self, reply: Reply, watchdog: Watchdog) -> Awaitable[None]:
        """Relay the whole answer."""

    def _read(
        self, reply: Reply, watchdog: Watchdog, on_piece: OnPiece | None = None
    ) -> Awaitable[bytes]:
        watchdog.expect(self._policy.idle_seconds, UpstreamIdleTimeout)
        return reply.read_some(on_piece)

    def _piece_writer(self, watchdog: Watchdog, tap: Tap | None = None) -> OnPiece:
        """Return what relays a piece in the callback that reads it: the request's task sleeps on.

        Only pieces that pass whole, to a client that reads; the task sees to all others.
        """
        write_now, expect = self._sink.write_now, watchdog.expect
        record, idle_seconds = self._record, self._policy.idle_seconds

        def write_piece(chunk: bytes) -> bool:
            if (tap is not None and tap.may_end_in(chunk)) or not write_now(chunk):
                return False
            if tap is not None:
                tap.feed(chunk)
            record.bytes_out += len(chunk)
            expect(idle_seconds, UpstreamIdleTimeout)
            return True

        return write_piece

    async def _write(self, chunk: bytes, watchdog: Watchdog) -> None:
        watchdog.expect(self._policy.client_stall_seconds, ClientStalled)
        await self._sink.write(chunk)
        self._record.bytes_out += len(chunk)

    def _start(self, status: int, headers: RawHeaders) -> Awaitable[None]:
        return self._sink.start(status, self._begin(status, unbuffered(headers)))

    def _send_whole(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None]:
        self._record.bytes_out += len(body)
        return self._sink.answer(status, self._begin(status, headers), body)

    def _begin(self, status: int, headers: RawHeaders) -> RawHeaders:
        """Record that the answer begins, and return its headers with the proxy's own."""
        self._record.status = status
        self._record.phase = "stream"
        return [*headers, *self._record.response_headers()]


class RelayBytes(Relay):
    """Relay an answer without looking at it."""

    async def run(self, reply: Reply, watchdog: Watchdog) -> None:
        """Send every piece as it arrives; a broken answer breaks the client's connection too."""
        chunk = await self._read(reply, watchdog)
        if reply.is_whole:
            await self._send_whole(reply.status, reply.headers, chunk)
            return
        await self._start(reply.status, reply.headers)
        write_piece = self._piece_writer(watchdog)
        while chunk:
            await self._write(chunk, watchdog)
            chunk = await self._read(reply, watchdog, write_piece)
        await self._sink.end()


def unbuffered(headers: RawHeaders) -> RawHeaders:
    """Return the headers of an answer in pieces; nginx holds event streams back without one."""
    values = values_of(headers)
    is_stream = values.get(b"content-type", b"").startswith(EVENT_STREAM)
    if not is_stream or NOT_BUFFERED[0] in values:
        return headers
    return [*headers, NOT_BUFFERED]
