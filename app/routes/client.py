"""The client's side of an exchange: the one owner of its `receive` and `send`."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from io import BytesIO
from typing import Any, cast

from starlette.types import Message, Receive, Scope, Send

from app.errors import ClientGone, RequestTooLarge, UnsupportedContentEncoding
from app.proxy.admission import Admission
from app.proxy.interrupt import Interruptible
from app.proxy.visit import Visit
from app.upstream.headers import RawHeaders, value_of

# What the server's protocol puts into the scope: the error by which it refused the request's rest,
# and its extensions: break the connection, and be called when it is lost (cheaper than a task that
# waits). Other servers have none of these.
REFUSED = "chat_proxy.refused"
ABORT = "chat_proxy.abort"
WATCH = "chat_proxy.watch"


class Client:
    """Reads one request's body and writes its answer."""

    __slots__ = (
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
        self._receive = receive
        self._send = send
        self._extensions = scope.get("extensions") or {}

    async def read_body(self, max_bytes: int, admission: Admission) -> bytes:
        """Return the whole body, or raise as soon as it is too large."""
        if value_of(self.headers, b"content-encoding").lower() not in (b"", b"identity"):
            raise UnsupportedContentEncoding
        self._hold(self._announced_bytes(), max_bytes, admission)
        held = BytesIO()  # it lends its value without a copy; joined pieces would be there twice
        while True:
            message = await self._next()
            piece: bytes = message.get("body", b"")
            is_last = not message.get("more_body", False)
            self._hold(held.tell() + len(piece), max_bytes, admission)
            if is_last and not held.tell():
                return piece
            held.write(piece)
            if is_last:
                return held.getvalue()

    def _announced_bytes(self) -> int:
        length = value_of(self.headers, b"content-length").strip()
        return int(length) if length.isdigit() else 0

    def _hold(self, size: int, max_bytes: int, admission: Admission) -> None:
        """Reserve room for a body of this size, or raise what stands against it."""
        if size > max_bytes:
            raise RequestTooLarge(f"At most {max_bytes} bytes are accepted.")
        if size > self.held_bytes:
            admission.take(size - self.held_bytes)
            self.held_bytes = size

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise self.scope.get(REFUSED) or ClientGone()
        return message

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
        """Send status and headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        self.started = True

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body, waiting while the client does not take it."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        """Send the last piece."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def abort(self) -> None:
        """Break the connection, so that nobody takes half an answer for a whole one."""
        abort = self._extensions.get(ABORT)
        if abort is not None:
            abort()
            await self.until_gone()


def stop_gone(interrupt: Interruptible) -> None:
    """End an exchange whose client is gone."""
    interrupt.stop(ClientGone())
