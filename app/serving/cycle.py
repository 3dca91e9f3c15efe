"""One request and its answer on a connection: head and first piece of the body in one write."""

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from app.errors import ProxyError
from app.routes.error_responses import error_body, error_headers

Message = Any
UNTIL_CLOSE = 1 << 63


class Cycle(RequestResponseCycle):
    """uvicorn's cycle with its own way of sending.

    The head waits for the first piece of the body, which saves a system call and a packet, and
    it is checked as a whole instead of by two regular expressions a header.
    """

    _head = b""
    lost: Callable[[], None] | None = None

    def watch(self, lost: Callable[[], None]) -> None:
        """Have `lost` called when the connection is gone; at once if it is already.

        A large body pauses reading, and a connection that is not read is not seen to go.
        """
        self.lost = lost
        self.flow.resume_reading()
        if self.disconnected:
            lost()

    def disconnect(self) -> None:
        """Tell whoever waits that the client is gone."""
        if self.response_complete:
            return
        self.disconnected = True
        self.message_event.set()
        if self.lost is not None:
            self.lost()

    async def send(self, message: Message) -> None:
        """Send an ASGI message."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if not self.response_started:
            self._start(message)
        elif self.response_complete:
            raise RuntimeError("the answer is complete already")
        else:
            self._send_body(message.get("body", b""), message.get("more_body", False))

    def _start(self, message: Message) -> None:
        if message["type"] != "http.response.start":
            raise RuntimeError("an answer begins with its status")
        headers = [*self.default_headers, *message.get("headers", ())]
        self.chunked_encoding = self._frame(headers, message["status"])
        lines = [STATUS_LINE[message["status"]]]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        head = b"".join(lines) + b"\r\n"
        ends = len(headers) + 2
        if head.count(b"\n") != ends or head.count(b"\r") != ends or b"\0" in head:
            raise RuntimeError("a header holds a line break")
        self._head = head
        self.response_started = True
        self.waiting_for_100_continue = False

    def _frame(self, headers: list[tuple[bytes, bytes]], status: int) -> bool:
        """Settle how the client finds the answer's end; return whether it comes in chunks.

        A request that has not arrived to its end makes its answer the connection's last.
        """
        self.expected_content_length = 0 if status in (204, 304) else UNTIL_CLOSE
        told = False
        for name, value in headers:
            if name == b"content-length":
                self.expected_content_length = int(value)
            elif name == b"connection" and value == b"close":
                told = True
        if told or self.more_body:
            self.keep_alive = False
        if not self.keep_alive and not told:
            headers.append((b"connection", b"close"))
        if self.expected_content_length != UNTIL_CLOSE or self.scope["http_version"] == "1.0":
            return False
        self.expected_content_length = 0
        headers.append((b"transfer-encoding", b"chunked"))
        return True

    def _send_body(self, body: bytes, more_body: bool) -> None:
        pieces = [self._head] if self._head else []
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
        elif not self.chunked_encoding:
            if len(body) > self.expected_content_length:
                raise RuntimeError("the answer is longer than it said")
            self.expected_content_length -= len(body)
            pieces.append(body)
        else:
            if body:
                pieces += (b"%x\r\n" % len(body), body, b"\r\n")
            if not more_body:
                pieces.append(b"0\r\n\r\n")
        if pieces:
            self._head = b""
            self.transport.write(b"".join(pieces))
        if not more_body:
            self._complete()

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if self.expected_content_length:
            self.keep_alive = False
        self.on_response()

    async def send_500_response(self) -> None:
        """Say uvicorn's own failure in JSON too."""
        error = ProxyError("The proxy made a mistake; its log says where.")
        body = error_body(error)
        headers = [*error_headers(error, body), (b"connection", b"close")]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
