"""HTTP as it arrives on a connection, by httptools: with deadlines, limits and refusals.

uvicorn's own protocol waits for ever for headers and bodies, takes any number of them, and says
its errors in plain text.
"""

import asyncio
from math import inf
from typing import Any

import httptools
import uvicorn
from uvicorn.server import ServerState

from chat_proxy.errors import BadRequest, HeadersTooLarge, ProxyError, RequestTimeout
from chat_proxy.http.server.connection import Connection
from chat_proxy.http.server.cycle import Cycle
from chat_proxy.http.server.flow import HIGH_WATER_BYTES
from chat_proxy.http.server.limits import ConnectionLimits
from chat_proxy.http.server.refusal import cause_of, last_answer
from chat_proxy.http.server.request_head import BODY, HEAD, IDLE, parts_of
from chat_proxy.http.server.timeouts import NOT_YET, ReceiveTimer
from chat_proxy.http.write_batch import WriteBatch
from chat_proxy.routes.front.asgi_client import REFUSED, SHORTCUTS
from chat_proxy.telemetry.metrics import Metrics

MAX_WAITING = 8

_ASGI = {"version": "3.0", "spec_version": "2.3"}


class GuardedProtocol(Connection):
    """A connection whose requests are read, answered in their order, or refused.

    The parser calls the `on_…` methods, here and of the head's reader.
    """

    __slots__ = (
        "_app",
        "_app_state",
        "_body_began",
        "_body_bytes",
        "_clock",
        "_line_bytes",
        "_metrics",
        "_refused",
        "unwelcome",
    )

    def __init__(
        self,
        limits: ConnectionLimits,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        loop = _loop or asyncio.get_running_loop()
        super().__init__(limits, server_state, loop, app_state.get("outbox") or WriteBatch())
        self.parser = _new_parser(self)
        self._clock = ReceiveTimer(self, limits.shortest_seconds)
        self.unwelcome: ProxyError | None = None
        self._app = config.loaded_app
        self._app_state = app_state
        self._metrics: Metrics | None = app_state.get("metrics")
        self._refused = False
        self._line_bytes = 0
        self._body_bytes = 0
        self._body_began = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the client its time for the first request."""
        super().connection_made(transport)
        self._clock.start()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._clock.stop()
        super().connection_lost(exc)

    # What arrives

    def data_received(self, data: bytes) -> None:
        """Parse, and start the clock if the request is not complete."""
        if self._refused:
            return
        if self._phase is IDLE:
            self._phase = HEAD
            self._clock.began = NOT_YET
            self._fed_bytes = 0
            self._line_bytes = 0
        self._fed_bytes += len(data)
        body_bytes = self._body_bytes
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(HeadersTooLarge() if self._is_too_large() else cause_of(error))
        else:
            if self._phase is not IDLE:
                self._judge_unfinished(data, body_bytes)

    def _judge_unfinished(self, data: bytes, body_bytes: int) -> None:
        """Watch over a request that is not complete, and over its unfinished line.

        The parser keeps that line, of the head or of a chunked body's end, to itself.
        """
        if self._body_bytes != body_bytes:
            self._line_bytes = 0
        else:
            line_began = data.rfind(b"\n") + 1
            self._line_bytes = len(data) - line_began + (0 if line_began else self._line_bytes)
        is_long = self._line_bytes > self._limits.max_header_line_bytes
        if is_long or (self._phase is HEAD and self._is_too_large()):
            self._refuse(HeadersTooLarge())
        elif self._clock.began == NOT_YET:
            self._clock.start()

    def _decline_upgrade(self, rest: bytes) -> None:
        """Read the request again without its wish for another protocol, and nothing behind it.

        The parser leaves out the body of such a request, and Java's client sends them by default.
        """
        head = self._without_upgrade()
        self._forget_head()
        self.parser = _new_parser(self)
        self.data_received(head + rest)

    def on_headers_complete(self) -> None:
        """Refuse what could be read in two ways; then start the app."""
        if self._is_too_large():
            raise HeadersTooLarge
        if self.unwelcome is not None and self.url.startswith(b"/v1/"):
            raise self.unwelcome
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise BadRequest("There is no tunnel here.")
            return
        version = self._read_version()
        self._phase = BODY
        self._room = 0
        self._clock.began = NOT_YET
        self._body_began = self._body_bytes
        self._begin_cycle(version)

    def _begin_cycle(self, version: str) -> None:
        """Complete the scope and start the app, or queue behind the request before."""
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
        self._arriving = cycle = Cycle(self, scope, keep_alive, is_modern and self._expects)
        scope["extensions"] = {SHORTCUTS: cycle}
        if self._running is None:
            self._running = cycle
            cycle.start(self._app)
        else:
            self._wait_in_line(cycle)

    def _wait_in_line(self, cycle: Cycle) -> None:
        """Queue a request, and read on for a while: only who reads notices that a client leaves."""
        self._waiting.append(cycle)
        if len(self._waiting) >= MAX_WAITING:
            self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Hand on what comes, and count it: every mebibyte buys a second."""
        self._body_bytes += len(body)
        cycle = self._arriving
        assert cycle is not None
        if not cycle.response_complete and cycle.take(body) > HIGH_WATER_BYTES:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Stop the clock and let the app know."""
        cycle = self._arriving
        if cycle is None:
            return  # An upgrade: the parser gives up before the request has begun.
        self._arriving = None
        self._phase = IDLE
        self._clock.began = NOT_YET
        if self._encodings and not self.parser.should_keep_alive():
            # A trailer said so, and the parser reads nothing behind it: no one may wait for that.
            cycle.keep_alive = False
        self._forget_head()
        if not cycle.response_complete:
            cycle.end_body()

    # Behind an answer

    def on_response_complete(self) -> None:
        """Go on with the next request, or close."""
        cycle, self._running = self._running, None
        assert cycle is not None
        if not cycle.keep_alive:
            self._close_behind(cycle)
            return
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._waiting:
            self._running = self._waiting.pop(0)
            self._running.start(self._app)
        elif self._phase is IDLE:
            self._clock.start()

    def _close_behind(self, cycle: Cycle) -> None:
        if cycle.more_body or self._refused:
            self._refused = True
            self._clock.stop()
            self._close_slowly()
        else:
            self.flow.close()

    # What takes too long

    def wait_ends(self, began: float) -> float:
        """Return until when the head, the body or the next request has time to come."""
        if self._phase is HEAD:
            return began + self._limits.header_seconds
        if self._phase is BODY:
            return began + self._limits.body_deadline(self._body_bytes - self._body_began)
        return inf if self._running is not None else began + self._limits.keep_alive_seconds

    def on_late(self) -> None:
        """Refuse a request that does not come to its end; close if there is none."""
        if self.transport.is_closing():
            return
        if self._phase is IDLE:
            self.flow.close()
            return
        if self._metrics is not None:
            phase = "headers" if self._phase is HEAD else "body"
            self._metrics.slow_clients.labels(phase).inc()
        self._refuse(RequestTimeout())

    # Refusals

    def _refuse(self, error: ProxyError) -> None:
        """Answer with an error and close; never into the middle of another request's answer."""
        self._refused = True
        self._clock.stop()
        if self._metrics is not None:
            self._metrics.refused_connections.labels(error.code).inc()
        running = self._running
        if running is None:
            self._say_last(error)
        elif running is self._arriving:
            running.scope[REFUSED] = error
            running.disconnect()
            if running.response_started:
                self._close_slowly()
            else:
                self._say_last(error)
        else:
            if self._arriving is not None:
                self._waiting.pop()
            self._last_cycle(running).keep_alive = False

    def _say_last(self, error: ProxyError) -> None:
        default_headers = self.server_state.default_headers
        self.flow.write(last_answer(error, self.headers, default_headers))
        self._close_slowly()


def _new_parser(protocol: GuardedProtocol) -> httptools.HttpRequestParser:
    """Return a parser that ignores what stands behind a last request, as uvicorn's does."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
