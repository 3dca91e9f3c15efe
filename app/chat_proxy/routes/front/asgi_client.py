"""The client of a request, over ASGI: the one owner of its `receive` and `send`."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from io import BytesIO
from typing import Any, Protocol, cast

from starlette.types import Message, Receive, Scope, Send

from chat_proxy.errors import ClientGone
from chat_proxy.http.headers import RawHeaders, values_of
from chat_proxy.http.server.cycle import REFUSED, SHORTCUTS
from chat_proxy.proxy.lifecycle.cancellation import Cancellation
from chat_proxy.proxy.request_context import RequestContext

# The unreserved characters of RFC 3986: - . 0-9 A-Z _ a-z ~
_NEEDLESS_ESCAPE = re.compile(
    rb"%(2[DdEe]|3[0-9]|4[1-9A-Fa-f]|5[0-9Aa]|5[Ff]|6[1-9A-Fa-f]|7[0-9Aa]|7[Ee])"
)


class Shortcuts(Protocol):
    """What our own server offers besides ASGI's messages."""

    def take_whole(self) -> bytes | None:
        """Return the body if all of it has arrived, None otherwise."""
        ...

    def answer(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Send a whole answer with its length; return False if the client is not ready."""
        ...

    def write_now(self, piece: bytes) -> bool:
        """Send a piece of the body; return False if the client is not ready."""
        ...

    def watch(self, lost: Callable[[], None]) -> None:
        """Call `lost` when the connection is gone: cheaper than a task that waits for it."""
        ...

    def abort(self) -> None:
        """Break the connection."""
        ...


class AsgiClient:
    """Read a request's body and write its answer."""

    __slots__ = (
        "_receive",
        "_send",
        "_shortcuts",
        "headers",
        "held_bytes",
        "path",
        "scope",
        "started",
        "values",
    )

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, *, uses_shortcuts: bool = True
    ) -> None:
        self.scope = scope
        self.headers = cast("RawHeaders", scope["headers"])
        self.values = values_of(self.headers)
        """The first value of each header."""
        root: str = scope.get("root_path", "")
        path: str = scope["path"]
        self.path = path.removeprefix(root) if root else path
        """The path below the one that the app is mounted at."""
        self.started = False
        self.held_bytes = 0
        """The memory that admission has granted to the request."""
        self._receive = receive
        self._send = send
        extensions = scope.get("extensions") if uses_shortcuts else None
        self._shortcuts: Shortcuts | None = (extensions or {}).get(SHORTCUTS)

    @property
    def raw_path(self) -> bytes:
        """The path as the client wrote it, below the one that the app is mounted at.

        Letters, digits and their like are never escaped in it: with and without, it is one path.
        """
        raw_path: bytes = self.scope["raw_path"]
        if b"%" in raw_path:
            raw_path = _NEEDLESS_ESCAPE.sub(
                lambda found: bytes.fromhex(found[1].decode()), raw_path
            )
        return raw_path.removeprefix(self.scope.get("root_path", "").encode())

    def take_body(self) -> bytes | None:
        """Return the whole body if it has arrived, as most have."""
        return self._shortcuts.take_whole() if self._shortcuts is not None else None

    async def read_body(self, accept: Callable[[int], None]) -> bytes:
        """Return the whole body; `accept` is told its size as it grows, and raises to refuse it."""
        message = await self._next()
        piece: bytes = message.get("body", b"")
        accept(len(piece))
        if not message.get("more_body", False):
            return piece
        held = (
            BytesIO()
        )  # it returns its value without a copy; joined pieces would take twice the memory
        held.write(piece)
        while message.get("more_body", False):
            message = await self._next()
            piece = message.get("body", b"")
            accept(held.tell() + len(piece))
            held.write(piece)
        return held.getvalue()

    @property
    def announced_bytes(self) -> int:
        """The length that the client says its body has; 0 if it says none."""
        length = self.values.get(b"content-length", b"").strip()
        return int(length) if length.isdigit() else 0

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise self.scope.get(REFUSED) or ClientGone()
        return message

    def watch(
        self, context: RequestContext, answering: Coroutine[Any, Any, None]
    ) -> Awaitable[None]:
        """Run a coroutine, cancelled when the client disconnects; the body must have been read."""
        context.record.phase = "ttfb"
        if self._shortcuts is None:
            return self._run_with_watcher(context.cancellation, answering)
        self._shortcuts.watch(context.cancellation.client_left)
        return answering

    async def _run_with_watcher(
        self, cancellation: Cancellation, answering: Coroutine[Any, Any, None]
    ) -> None:
        watcher = asyncio.get_running_loop().create_task(self._cancel_when_gone(cancellation))
        try:
            await answering
        finally:
            watcher.cancel()

    async def _cancel_when_gone(self, cancellation: Cancellation) -> None:
        await self.until_gone()
        cancellation.client_left()

    async def until_gone(self) -> None:
        """Wait until the client has disconnected; call it only after reading the body."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send status and headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        self.started = True

    def write(self, chunk: bytes) -> Awaitable[None]:
        """Send a piece of the body, waiting while the client does not read it."""
        return self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    def write_now(self, chunk: bytes) -> bool:
        """Send a piece of the body unless that means to wait; return whether it was sent."""
        return self._shortcuts is not None and self._shortcuts.write_now(chunk)

    def end(self, chunk: bytes = b"") -> Awaitable[None]:
        """Send the last piece."""
        return self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send a whole answer with its length."""
        if self._shortcuts is not None and self._shortcuts.answer(status, headers, body):
            self.started = True
            return
        await self.start(status, with_length(status, headers, body))
        await self.end(body)

    async def abort(self) -> None:
        """Break the connection, so that half an answer does not pass for a whole one."""
        if self._shortcuts is not None:
            self._shortcuts.abort()
            await self.until_gone()


def with_length(status: int, headers: RawHeaders, body: bytes) -> RawHeaders:
    """Return the headers of a whole answer with its length, unless it can have no body."""
    return headers if status == 204 else [*headers, (b"content-length", b"%d" % len(body))]
