"""The HTTP protocol of a client connection, parsed by httptools: timeouts, limits, refusals.

uvicorn's own protocol has no timeout and no limit for headers and bodies, and answers its errors in
plain text.
"""

import asyncio
from math import inf
from typing import Any

import httptools
import uvicorn
from uvicorn.server import ServerState

from chat_proxy.errors import BadRequest, HeadersTooLarge, ProxyError, RequestTimeout
from chat_proxy.http.server.connection import Connection
from chat_proxy.http.server.cycle import REFUSED, SHORTCUTS, Cycle
from chat_proxy.http.server.flow import HIGH_WATER_BYTES
from chat_proxy.http.server.hooks import ServerHooks
from chat_proxy.http.server.limits import ConnectionLimits
from chat_proxy.http.server.request_head import BODY, HEAD, IDLE, parts_of
from chat_proxy.http.server.response_framing import last_answer
from chat_proxy.http.server.timeouts import NOT_YET, ReceiveTimer

MAX_WAITING = 8

_ASGI = {"version": "3.0", "spec_version": "2.3"}


class GuardedProtocol(Connection):
    """A connection whose requests are read and answered in their order, or refused.

    The parser calls the `on_…` methods, here and in HeadReader.
    """

    __slots__ = (
        "_app",
        "_app_state",
        "_body_began",
        "_body_bytes",
        "_framing_bytes",
        "_hooks",
        "_line_bytes",
        "_refused",
        "_timer",
        "unwelcome",
    )

    def __init__(
        self,
        limits: ConnectionLimits,
        hooks: ServerHooks,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        loop = _loop or asyncio.get_running_loop()
        super().__init__(limits, server_state, loop)
        self.parser = _new_parser(self)
        self._timer = ReceiveTimer(self, limits.shortest_seconds)
        self.unwelcome: ProxyError | None = None
        self._app = config.loaded_app
        self._app_state = app_state
        self._hooks = hooks
        self._refused = False
        self._line_bytes = 0
        self._body_bytes = 0
        self._body_began = 0
        self._framing_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout for the first request."""
        super().connection_made(transport)
        self._timer.start()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._timer.stop()
        super().connection_lost(exc)

    # The arrival of requests

    def data_received(self, data: bytes) -> None:
        """Parse the data, and start the timer if the request is not complete."""
        if self._refused:
            return
        if self._phase is IDLE:
            self._phase = HEAD
            self._timer.began = NOT_YET
            self._fed_bytes = 0
            self._line_bytes = 0
        self._fed_bytes += len(data)
        body_bytes, arriving = self._body_bytes, self._arriving
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(HeadersTooLarge() if self._is_too_large() else cause_of(error))
        else:
            if self._phase is not IDLE:
                if arriving is not None and arriving is self._arriving:
                    self._framing_bytes += len(data) - self._body_bytes + body_bytes
                self._check_unfinished(data, body_bytes)

    def _check_unfinished(self, data: bytes, body_bytes: int) -> None:
        """Check the limits of an incomplete request, and the length of its last line.

        The parser does not expose that line, which is in the head or at a chunked body's end.
        """
        if self._body_bytes != body_bytes:
            self._line_bytes = 0
        else:
            line_began = data.rfind(b"\n") + 1
            self._line_bytes = len(data) - line_began + (0 if line_began else self._line_bytes)
        is_long = self._line_bytes > self._limits.max_header_line_bytes
        if is_long or (self._phase is HEAD and self._is_too_large()):
            self._refuse(HeadersTooLarge())
        elif self._framing_bytes > self._limits.most_framing(self._body_bytes - self._body_began):
            self._refuse(BadRequest("The chunks of the body are too small."))
        elif self._timer.began == NOT_YET:
            self._timer.start()

    def _decline_upgrade(self, rest: bytes) -> None:
        """Parse the request again without its Upgrade header, as the last of the connection.

        The parser skips the body of an upgrade request, and Java's client sends them by default.
        """
        head = self._without_upgrade()
        self._forget_head()
        self.parser = _new_parser(self)
        self.data_received(head + rest)

    def on_headers_complete(self) -> None:
        """Refuse a request that is ambiguous or over the connection limit; else start the app."""
        if self._is_too_large():
            raise HeadersTooLarge
        if self.unwelcome is not None and parts_of(self.url)[1].startswith("/v1/"):
            raise self.unwelcome
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise BadRequest("CONNECT is not supported.")
            return
        version = self._read_version()
        self._phase = BODY
        self._max_kept = 0
        self._timer.began = NOT_YET
        self._body_began = self._body_bytes
        self._framing_bytes = 0
        self._begin_cycle(version)

    def _begin_cycle(self, version: str) -> None:
        """Make the scope and start the app, or queue the request after the running one."""
        raw_path, path, query = parts_of(self.url)
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self._server,
            "client": self._client,
            "scheme": "http",
            "method": self.parser.get_method().decode("ascii"),
            "root_path": "",
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
            "state": self._app_state.copy(),
        }
        is_modern = version != "1.0"
        keep_alive = is_modern and self.parser.should_keep_alive()
        self._arriving = cycle = Cycle(
            self, scope, keep_alive, is_modern and self._expects_continue, self._hooks
        )
        scope["extensions"] = {SHORTCUTS: cycle}
        if self._running is None:
            self._running = cycle
            cycle.start(self._app)
        else:
            self._enqueue(cycle)

    def _enqueue(self, cycle: Cycle) -> None:
        """Queue a request, and read on up to MAX_WAITING: only reading notices a lost client."""
        self._waiting.append(cycle)
        if len(self._waiting) >= MAX_WAITING:
            self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body to the app, and count it: each mebibyte adds a second."""
        self._body_bytes += len(body)
        cycle = self._arriving
        assert cycle is not None
        if not cycle.response_complete and cycle.take(body) > HIGH_WATER_BYTES:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Stop the timeout and mark the request as complete for the app."""
        cycle = self._arriving
        if cycle is None:
            return  # An upgrade: the parser stops before the request has begun.
        self._arriving = None
        self._phase = IDLE
        self._timer.began = NOT_YET
        if self._encodings and not self.parser.should_keep_alive():
            # A trailer asked for the close: the parser reads no further request.
            cycle.keep_alive = False
        self._forget_head()
        if not cycle.response_complete:
            cycle.end_body()

    # After an answer

    def on_response_complete(self) -> None:
        """Start the next request, or close."""
        cycle, self._running = self._running, None
        assert cycle is not None
        if not cycle.keep_alive:
            self._close_after(cycle)
            return
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self._waiting:
            self._running = self._waiting.pop(0)
            self._running.start(self._app)
        elif self._phase is IDLE:
            self._timer.start()

    def _close_after(self, cycle: Cycle) -> None:
        if cycle.more_body or self._refused:
            self._refused = True
            self._timer.stop()
            self._close_slowly()
        else:
            self.flow.close()

    # Timeouts

    def wait_ends(self, began: float) -> float:
        """Return when the wait for the head, the body or the next request ends."""
        if self._phase is HEAD:
            return began + self._limits.header_seconds
        if self._phase is BODY:
            return began + self._limits.body_deadline(self._body_bytes - self._body_began)
        return inf if self._running is not None else began + self._limits.keep_alive_seconds

    def on_late(self) -> None:
        """Refuse a request that is not complete in time; close an idle connection."""
        if self.transport.is_closing():
            return
        if self._phase is IDLE:
            self.flow.close()
            return
        self._hooks.count_slow_client("headers" if self._phase is HEAD else "body")
        self._refuse(RequestTimeout())

    # Refusals

    def _refuse(self, error: ProxyError) -> None:
        """Answer with an error and close; never in the middle of another request's answer."""
        self._refused = True
        self._timer.stop()
        self._hooks.count_refusal(error.code)
        running = self._running
        if running is None:
            self._write_last(error)
        elif running is self._arriving:
            running.scope[REFUSED] = error
            running.disconnect()
            if running.response_started:
                self._close_slowly()
            else:
                self._write_last(error)
        else:
            if self._arriving is not None:
                self._waiting.pop()
            self._last_cycle(running).keep_alive = False

    def _write_last(self, error: ProxyError) -> None:
        headers, body = self._hooks.refusal(error, self.headers)
        headers = [*self.server_state.default_headers, *headers]
        self.flow.write(last_answer(error, headers, body))
        self._close_slowly()


def _new_parser(protocol: GuardedProtocol) -> httptools.HttpRequestParser:
    """Return a parser that ignores data after a last request, as uvicorn's does."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def cause_of(error: BaseException) -> ProxyError:
    """Return why the parser stopped: an error of ours that it passed on, or invalid HTTP."""
    cause = error.__cause__ or error.__context__
    return cause if isinstance(cause, ProxyError) else BadRequest("The request is not valid HTTP.")
