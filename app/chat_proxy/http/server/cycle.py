"""One request and its answer on a connection, as an ASGI app sees them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from starlette.types import ASGIApp, Message
from uvicorn.server import ServerState

from chat_proxy.http.headers import RawHeaders
from chat_proxy.http.server.flow import Flow
from chat_proxy.http.server.hooks import ServerHooks
from chat_proxy.http.server.response_framing import ResponseFraming

# Keys that the server adds to the scope: the error by which it refused the rest of the request, and
# an ASGI extension with shortcuts for ASGI's messages. Other servers have neither.
REFUSED = "chat_proxy.refused"
SHORTCUTS = "chat_proxy.shortcuts"

_log = logging.getLogger("uvicorn.error")


class Line(Protocol):
    """The connection as its cycles use it."""

    loop: asyncio.AbstractEventLoop
    flow: Flow
    server_state: ServerState

    def on_response_complete(self) -> None:
        """Handle the end of the answer: all of it has been written."""
        ...


class Cycle(ResponseFraming):
    """The ASGI interface of one request: the scope, `receive` and `send`.

    It replaces uvicorn's own: no event, no copies of the body, no regular expressions for headers.
    The head is sent with the first piece of the body, which saves a system call and a packet. The
    shortcuts serve most requests, which come in one piece and are answered in one.
    """

    __slots__ = (
        "_body",
        "_connection",
        "_flow",
        "_has_event",
        "_hooks",
        "_lost",
        "_task",
        "_waiter",
        "_wants_to_continue",
        "disconnected",
        "response_complete",
        "response_started",
    )

    def __init__(
        self,
        connection: Line,
        scope: dict[str, Any],
        keep_alive: bool,
        wants_to_continue: bool,
        hooks: ServerHooks,
    ) -> None:
        super().__init__(scope, keep_alive)
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self._connection = connection
        self._flow = connection.flow
        self._hooks = hooks
        self._wants_to_continue = wants_to_continue
        self._task: asyncio.Task[None] | None = None
        self._lost: Callable[[], None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._has_event = False
        self._body: bytes | bytearray = b""

    # For the connection

    def start(self, app: ASGIApp) -> None:
        """Run the app in a task of its own."""
        # `loop.create_task` would cost a fifth more, for a name that is never read.
        self._task = asyncio.Task(self._run(app), loop=self._connection.loop, name="request")
        self._connection.server_state.tasks.add(self._task)
        self._flow.write_batch.wake()

    def take(self, piece: bytes) -> int:
        """Hold a piece of the body until the app takes it; return the number of bytes held.

        Most bodies come in one piece, which is not copied. Tiny pieces are joined, so that each
        costs no more memory than its bytes.
        """
        held = self._body
        if not held:
            self._body = piece
        elif isinstance(held, bytearray):
            held += piece
        else:
            self._body = bytearray().join((held, piece))
        self._notify()
        return len(self._body)

    def end_body(self) -> None:
        """Mark the request as complete."""
        self.more_body = False
        self._notify()

    def disconnect(self) -> None:
        """Notify the app that the client is gone."""
        if self.response_complete:
            return
        self.disconnected = True
        self._notify()
        if self._lost is not None:
            self._lost()

    def _notify(self) -> None:
        self._has_event = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _run(self, app: ASGIApp) -> None:
        """Call the app, and end the answer if the app has not."""
        self._flow.write_batch.run()
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001 - the last handler of all, as uvicorn has it
            _log.error("Exception in ASGI application\n", exc_info=error)
            await self._end_unfinished()
        else:
            if not self.response_complete and not self.disconnected:
                _log.error("ASGI callable returned without completing response.")
                await self._end_unfinished()
        finally:
            self._connection.server_state.tasks.discard(self._task)
            # They refer to the cycle: without them it is freed at once.
            self.scope.pop("extensions", None)

    async def _end_unfinished(self) -> None:
        """Answer a failure of the app in JSON; close if the answer has begun already."""
        if self.response_started:
            self._flow.close()
            return
        headers, body = self._hooks.failure()
        headers = [*headers, (b"connection", b"close")]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    # For the app: the shortcuts

    def take_whole(self) -> bytes | None:
        """Return the body if it has arrived in one piece, else None; use it once, before receive.

        A client that expects `100 Continue` gets it from `receive` only.
        """
        body = self._body
        if self.more_body or self.disconnected or self._wants_to_continue:
            return None
        if type(body) is not bytes:
            return None
        self._body = b""
        self._has_event = False
        return body

    def answer(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Send a whole answer; return False if the client does not read, for `send` to wait."""
        if self.disconnected:
            return True
        if self._flow.write_paused:
            return False
        if self.response_started:
            raise RuntimeError("the answer has begun already")
        headers = [*self._connection.server_state.default_headers, *headers]
        data = self._whole(status, headers, body)
        self.response_started = True
        self._wants_to_continue = False
        self._flow.write_batch.send(self._flow.transport, (data,))
        self._complete()
        return True

    def write_now(self, piece: bytes) -> bool:
        """Send a piece of an answer that has begun; return False if the client does not read."""
        flow = self._flow
        if flow.write_paused or self.disconnected:
            return False
        if data := self._framed(piece, more_body=True):
            flow.write_batch.send(flow.transport, (data,))
        return True

    def abort(self) -> None:
        """Break the connection, after delivering what has been written."""
        self._flow.abort()

    def watch(self, lost: Callable[[], None]) -> None:
        """Call `lost` when the connection is gone; at once if it is gone already.

        Reading is resumed: a large body pauses it, and only reading notices a lost connection.
        """
        self._lost = lost
        if self._flow.read_paused:
            self._flow.resume_reading()
        if self.disconnected:
            lost()

    # For the app: ASGI

    async def receive(self) -> Message:
        """Return the body that arrived since the last call; for one task at a time."""
        if self._wants_to_continue and not self.disconnected:
            self._flow.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._wants_to_continue = False
        if not self.disconnected and not self.response_complete:
            self._flow.resume_reading()
            if not self._has_event:
                self._waiter = self._connection.loop.create_future()
                await self._waiter
            self._has_event = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self._body = self._body, b""
        whole = body if isinstance(body, bytes) else bytes(body)
        return {"type": "http.request", "body": whole, "more_body": self.more_body}

    def send(self, message: Message) -> Awaitable[None]:
        """Send an ASGI message, at once unless the client has stopped reading."""
        if self.disconnected:
            return self._flow.sent
        if self._flow.write_paused:
            return self._send_later(message)
        if not self.response_started:
            self._start(message)
        elif self.response_complete:
            raise RuntimeError("the answer is complete already")
        else:
            more_body = message.get("more_body", False)
            data = self._framed(message.get("body", b""), more_body)
            if data:
                self._flow.write(data)
            if not more_body:
                self._complete()
        return self._flow.sent

    async def _send_later(self, message: Message) -> None:
        await self._flow.drain()
        await self.send(message)

    def _start(self, message: Message) -> None:
        if message["type"] != "http.response.start":
            raise RuntimeError("an answer begins with its status")
        headers = [*self._connection.server_state.default_headers, *message.get("headers", ())]
        self._begin(message["status"], headers)
        self.response_started = True
        self._wants_to_continue = False

    def _complete(self) -> None:
        self.response_complete = True
        self._notify()
        if self._bytes_left:
            self.keep_alive = False
        self._connection.on_response_complete()
