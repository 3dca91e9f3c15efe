"""The client's side of an exchange: the one owner of its `receive` and `send`."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, cast

from starlette.types import Message, Receive, Scope, Send

from app.errors import (
    ClientGone,
    RequestTimeout,
    RequestTooLarge,
    UnsupportedContentEncoding,
)
from app.proxy.admission import Admission
from app.proxy.interrupt import Interruptible
from app.proxy.visit import Visit
from app.upstream.headers import RawHeaders, value_of

LINGER_BYTES = 64 * 1024
LINGER_SECONDS = 1.0

# What the server's protocol puts into the scope when the body's deadline is over, and its
# extensions: break the connection, and be called when it is lost (cheaper than a task that waits).
TIMED_OUT = "chat_proxy.timed_out"
ABORT = "chat_proxy.abort"
WATCH = "chat_proxy.watch"


class Client:
    """Reads one request's body and writes its answer."""

    __slots__ = (
        "_body_read",
        "_extensions",
        "_receive",
        "_send",
        "headers",
        "held_bytes",
        "scope",
        "started",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.headers = cast("RawHeaders", scope["headers"])
        self.started = False
        self.held_bytes = 0
        self._body_read = False
        self._receive = receive
        self._send = send
        self._extensions = scope.get("extensions") or {}

    async def read_body(self, max_bytes: int, admission: Admission) -> bytes:
        """Return the whole body, or raise as soon as it is too large."""
        if value_of(self.headers, b"content-encoding").lower() not in (b"", b"identity"):
            raise UnsupportedContentEncoding
        announced = self._announced_bytes()
        if announced > max_bytes:
            raise RequestTooLarge(f"At most {max_bytes} bytes are accepted.")
        self._hold(announced, admission)
        message = await self._next()
        if not message.get("more_body"):
            self._body_read = True
            return cast("bytes", message.get("body", b""))
        return await self._read_on(message, max_bytes, admission)

    async def _read_on(self, message: Message, max_bytes: int, admission: Admission) -> bytes:
        pieces = [message.get("body", b"")]
        size = len(pieces[0])
        while message.get("more_body"):
            message = await self._next()
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > max_bytes:
                raise RequestTooLarge(f"At most {max_bytes} bytes are accepted.")
            self._hold(size - self.held_bytes, admission)
        self._body_read = True
        return b"".join(pieces)

    def _hold(self, more_bytes: int, admission: Admission) -> None:
        if more_bytes > 0:
            admission.take(more_bytes)
            self.held_bytes += more_bytes

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise RequestTimeout if self.scope.get(TIMED_OUT) else ClientGone
        return message

    def _announced_bytes(self) -> int:
        length = value_of(self.headers, b"content-length")
        return int(length) if length.isdigit() else 0

    async def watch(self, visit: Visit, exchange: Coroutine[Any, Any, None]) -> None:
        """Run the exchange and end it when the client leaves; the body must have been read."""
        visit.record.phase = "ttfb"
        watch = self._extensions.get(WATCH)
        if watch is not None:
            watch(partial(stop_gone, visit.interrupt))
            await exchange
            return
        watcher = asyncio.get_running_loop().create_task(self._stop_when_gone(visit.interrupt))
        try:
            await exchange
        finally:
            watcher.cancel()

    async def _stop_when_gone(self, interrupt: Interruptible) -> None:
        await self.until_gone()
        stop_gone(interrupt)

    async def until_gone(self) -> None:
        """Wait until the client has left; call it only behind the body."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send status and headers; a request that was not read to its end closes the connection."""
        if self._leaves_body_unread:
            headers = [*headers, (b"connection", b"close")]
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body, waiting while the client does not take it."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        """Send the last piece, and let an unread request run out so that the answer arrives."""
        if self._leaves_body_unread:
            await self.write(chunk)
            await self._linger()
            chunk = b""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    @property
    def _leaves_body_unread(self) -> bool:
        return not self._body_read and (
            self._announced_bytes() > 0 or bool(value_of(self.headers, b"transfer-encoding"))
        )

    async def _linger(self) -> None:
        """Read a little on: closing at once would reset the connection under the answer."""
        size = 0
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while size < LINGER_BYTES:
                    message = await self._receive()
                    size += len(message.get("body", b""))
                    if not message.get("more_body"):
                        return
        except TimeoutError:
            return

    async def abort(self) -> None:
        """Break the connection, so that nobody takes half an answer for a whole one."""
        abort = self._extensions.get(ABORT)
        if abort is not None:
            abort()
            await self.until_gone()


def stop_gone(interrupt: Interruptible) -> None:
    """End an exchange whose client is gone."""
    interrupt.stop(ClientGone())
