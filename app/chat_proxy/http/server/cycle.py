"""One request and its answer on a connection: head and first piece of the body in one write."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from starlette.types import ASGIApp, Message
from uvicorn.server import ServerState

from chat_proxy.errors import ProxyError
from chat_proxy.http.headers import RawHeaders, head_of
from chat_proxy.http.server.chunked import FIRST_LINES, LAST_CHUNK, chunk_of
from chat_proxy.http.server.flow import Flow
from chat_proxy.routes.front.error_responses import error_body, error_headers

UNTIL_CLOSE = 1 << 63

_BODILESS = frozenset({204, 304})
_FRAMING = frozenset({b"content-length", b"connection"})
_CLOSE = (b"connection", b"close")

_log = logging.getLogger("uvicorn.error")


class Line(Protocol):
    """What a cycle needs of its connection."""

    loop: asyncio.AbstractEventLoop
    flow: Flow
    server_state: ServerState

    def on_response_complete(self) -> None:
        """Learn that the answer has been written."""
        ...


class Cycle:
    """What an ASGI app sees of its client: the scope, `receive` and `send`.

    uvicorn's, written anew: no event, no copies of the body, no regular expressions for headers.
    The head waits for the first piece of the body, which saves a system call and a packet. The
    shortcuts are for most requests: they come in one piece, and so do their answers.
    """

    __slots__ = (
        "_body",
        "_bytes_left",
        "_flow",
        "_has_news",
        "_head",
        "_is_chunked",
        "_is_mute",
        "_line",
        "_lost",
        "_task",
        "_waiter",
        "_wants_to_continue",
        "disconnected",
        "keep_alive",
        "more_body",
        "response_complete",
        "response_started",
        "scope",
    )

    def __init__(
        self,
        line: Line,
        scope: dict[str, Any],
        keep_alive: bool,
        wants_to_continue: bool,
    ) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.more_body = True
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self._line = line
        self._flow = line.flow
        self._wants_to_continue = wants_to_continue
        self._task: asyncio.Task[None] | None = None
        self._lost: Callable[[], None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._has_news = False
        self._body: bytes | bytearray = b""
        self._head = b""
        self._is_chunked = False
        self._is_mute = False
        self._bytes_left = 0

    # For the connection

    def start(self, app: ASGIApp) -> None:
        """Have the app answer, together with what else begins in this turn of the loop."""
        self._flow.write_batch.begin(partial(self._begin, app), self._line.loop)

    def _begin(self, app: ASGIApp) -> None:
        # Made by hand: the loop's way costs a fifth more, for a name that nobody reads.
        self._task = asyncio.Task(self._run(app), loop=self._line.loop, name="request")
        self._line.server_state.tasks.add(self._task)
        self._flow.write_batch.wake()

    def take(self, piece: bytes) -> int:
        """Hold a piece of the body until the app wants it; return how many bytes are held.

        Most bodies come in one piece, which is not copied; tiny ones cost no more than their bytes.
        """
        held = self._body
        if not held:
            self._body = piece
        elif isinstance(held, bytearray):
            held += piece
        else:
            self._body = bytearray().join((held, piece))
        self._tell()
        return len(self._body)

    def end_body(self) -> None:
        """Note that the request has arrived to its end."""
        self.more_body = False
        self._tell()

    def disconnect(self) -> None:
        """Tell whoever waits that the client is gone."""
        if self.response_complete:
            return
        self.disconnected = True
        self._tell()
        if self._lost is not None:
            self._lost()

    def _tell(self) -> None:
        self._has_news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _run(self, app: ASGIApp) -> None:
        """Call the app, and end what it leaves unfinished."""
        self._flow.write_batch.run()
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001 - uvicorn's own last line
            _log.error("Exception in ASGI application\n", exc_info=error)
            await self._make_an_end()
        else:
            if not self.response_complete and not self.disconnected:
                _log.error("ASGI callable returned without completing response.")
                await self._make_an_end()
        finally:
            self._line.server_state.tasks.discard(self._task)
            # They know the cycle: without them it is freed at once.
            self.scope.pop("extensions", None)

    async def _make_an_end(self) -> None:
        """Say a failure of the app in JSON; behind a begun answer there is only the end."""
        if self.response_started:
            self._flow.close()
            return
        error = ProxyError("The proxy made a mistake; its log says where.")
        body = error_body(error)
        headers = [*error_headers(error, body), (b"connection", b"close")]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    # For the app: the shortcuts

    def take_whole(self) -> bytes | None:
        """Return the body if all of it is there in one piece; for one call, in place of receive.

        A client that wants to be told to go on is told so by `receive`.
        """
        body = self._body
        if self.more_body or self.disconnected or self._wants_to_continue:
            return None
        if type(body) is not bytes:
            return None
        self._body = b""
        self._has_news = False
        return body

    def answer(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Send a whole answer with its length; False if the client must be waited for."""
        if self.disconnected:
            return True
        if self._flow.write_paused:
            return False
        if self.response_started:
            raise RuntimeError("the answer has begun already")
        headers = [*self._line.server_state.default_headers, *headers]
        if status not in _BODILESS:
            headers.append((b"content-length", b"%d" % len(body)))
        self._settle_close(headers, told=_CLOSE in headers)
        head = head_of(FIRST_LINES[status], headers)
        self.response_started = True
        self._wants_to_continue = False
        self._flow.write(head if self.scope["method"] == "HEAD" else head + body)
        self._complete()
        return True

    def abort(self) -> None:
        """Break the connection; what the client could have had already, it gets."""
        self._flow.abort()

    def watch(self, lost: Callable[[], None]) -> None:
        """Have `lost` called when the connection is gone; at once if it is already.

        A large body pauses reading, and a connection that is not read is not seen to go.
        """
        self._lost = lost
        self._flow.resume_reading()
        if self.disconnected:
            lost()

    # For the app: ASGI

    async def receive(self) -> Message:
        """Return what arrived since the last time; to be called by one task at a time."""
        if self._wants_to_continue and not self.disconnected:
            self._flow.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._wants_to_continue = False
        if not self.disconnected and not self.response_complete:
            self._flow.resume_reading()
            if not self._has_news:
                self._waiter = self._line.loop.create_future()
                await self._waiter
            self._has_news = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self._body = self._body, b""
        whole = body if isinstance(body, bytes) else bytes(body)
        return {"type": "http.request", "body": whole, "more_body": self.more_body}

    def send(self, message: Message) -> Awaitable[None]:
        """Send an ASGI message, at once if the client takes what it is sent."""
        if self.disconnected:
            return self._flow.sent
        if self._flow.write_paused:
            return self._send_later(message)
        if not self.response_started:
            self._start(message)
        elif self.response_complete:
            raise RuntimeError("the answer is complete already")
        else:
            self._send_body(message.get("body", b""), message.get("more_body", False))
        return self._flow.sent

    async def _send_later(self, message: Message) -> None:
        await self._flow.drain()
        await self.send(message)

    def _start(self, message: Message) -> None:
        if message["type"] != "http.response.start":
            raise RuntimeError("an answer begins with its status")
        status = message["status"]
        headers = [*self._line.server_state.default_headers, *message.get("headers", ())]
        self._frame(headers, status)
        self._head = head_of(FIRST_LINES[status], headers)
        self.response_started = True
        self._wants_to_continue = False

    def _settle_close(self, headers: RawHeaders, *, told: bool) -> None:
        """Settle whether the connection goes on, and tell the client of its end.

        A request that has not arrived to its end makes its answer the connection's last.
        """
        if told or self.more_body:
            self.keep_alive = False
        if not self.keep_alive and not told:
            headers.append(_CLOSE)

    def _frame(self, headers: RawHeaders, status: int) -> None:
        """Settle how the client finds the answer's end: by its length, in chunks, by the close."""
        bytes_left = 0 if status in _BODILESS else UNTIL_CLOSE
        told = False
        for name, value in headers:
            if name in _FRAMING:
                if name == b"content-length":
                    bytes_left = int(value)
                elif value == b"close":
                    told = True
        self._settle_close(headers, told=told)
        self._is_mute = self.scope["method"] == "HEAD"
        self._is_chunked = bytes_left == UNTIL_CLOSE and self.scope["http_version"] != "1.0"
        self._bytes_left = 0 if self._is_chunked else bytes_left
        if self._is_chunked:
            headers.append((b"transfer-encoding", b"chunked"))

    def _send_body(self, body: bytes, more_body: bool) -> None:
        if self._is_mute:
            body = b""
            self._bytes_left = 0
        elif self._is_chunked:
            body = chunk_of(body) if more_body else chunk_of(body) + LAST_CHUNK
        elif len(body) > self._bytes_left:
            raise RuntimeError("the answer is longer than it said")
        else:
            self._bytes_left -= len(body)
        if self._head:
            body, self._head = self._head + body, b""
        if body:
            self._flow.write(body)
        if not more_body:
            self._complete()

    def _complete(self) -> None:
        self.response_complete = True
        self._tell()
        if self._bytes_left:
            self.keep_alive = False
        self._line.on_response_complete()
