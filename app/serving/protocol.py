"""HTTP as it arrives: uvicorn's httptools protocol with deadlines, limits and one reading only.

uvicorn waits for ever for headers and bodies, takes any number of them, and says its errors in
plain text. What is ambiguous here is refused: two readings of one request are how requests are
smuggled.
"""

import asyncio
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from app.errors import BadRequest, ExpectationFailed, HeadersTooLarge, ProxyError, RequestTimeout
from app.routes.client import ABORT, TIMED_OUT, WATCH
from app.routes.error_responses import error_body, error_headers
from app.serving.cycle import Cycle
from app.telemetry.metrics import Metrics

LINGER_SECONDS = 1.0
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How long and how large a request's arrival may be."""

    header_seconds: float
    body_seconds: float
    max_header_bytes: int
    max_header_line_bytes: int
    max_headers: int


class Phase(Enum):
    """Where a connection stands between two requests."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


class GuardedProtocol(HttpToolsProtocol):
    """One client connection."""

    def __init__(self, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._metrics: Metrics | None = self.app_state.get("metrics")
        self._phase = Phase.HEAD
        self._phase_began = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self._refused = False
        self._running: Cycle | None = None
        self._head_bytes = 0
        self._body_bytes = 0
        self._hosts = 0
        self._head_left = 0

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the client its time for the first request."""
        super().connection_made(transport)
        self._enter(Phase.HEAD)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request of this connection, also those that wait in the pipeline."""
        self._forget_deadline()
        waiting = [cycle for cycle, _ in self.pipeline]
        super().connection_lost(exc)
        for cycle in (self._running, *waiting):
            if isinstance(cycle, Cycle):
                cycle.disconnect()

    def data_received(self, data: bytes) -> None:
        """Parse, and start the clock if the request is not complete."""
        if self._refused:
            return
        self._unset_keepalive_if_required()
        if self._phase is Phase.IDLE:
            self._enter(Phase.HEAD)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The request itself was complete; what follows it is in no language we speak.
            self.cycle.keep_alive = False
            self._refused = True
        except httptools.HttpParserCallbackError as error:
            self._refuse(_cause(error))
        except httptools.HttpParserError:
            self._refuse(BadRequest("The request is not valid HTTP."))
        else:
            self._judge_head_so_far(len(data))
            if self._phase is not Phase.IDLE and self._deadline is None and not self._refused:
                self._watch()

    def _judge_head_so_far(self, size: int) -> None:
        """Count a head that is still arriving; the parser keeps its unfinished line to itself."""
        if self._phase is Phase.HEAD:
            self._head_bytes += size
            if self._head_bytes > self._limits.max_header_bytes:
                self._refuse(HeadersTooLarge())

    # The request's head

    def on_message_begin(self) -> None:
        """Start counting."""
        super().on_message_begin()
        if self._phase is Phase.IDLE:
            self._enter(Phase.HEAD)
        self._head_bytes = 0
        self._body_bytes = 0
        self._hosts = 0
        self._head_left = self._limits.max_header_bytes

    def on_url(self, url: bytes) -> None:
        """Take the target, in origin form only: no absolute or authority form."""
        self.url += url
        if len(self.url) > self._limits.max_header_line_bytes:
            raise HeadersTooLarge
        if not self.url.startswith(b"/"):
            raise BadRequest("The request target must be a path.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, within the limits."""
        size = len(name) + len(value) + 4
        self._head_left -= size
        if size > self._limits.max_header_line_bytes or self._head_left < 0:
            raise HeadersTooLarge
        name = name.lower()
        self.headers.append((name, value))
        if len(self.headers) > self._limits.max_headers:
            raise HeadersTooLarge
        if name in _JUDGED:
            self._judge(name, value.lower())

    def _judge(self, name: bytes, value: bytes) -> None:
        """Look at the headers that decide how a request is read."""
        if name == b"host":
            self._hosts += 1
        elif name == b"expect":
            if value != b"100-continue":
                raise ExpectationFailed
            self.expect_100_continue = True
        elif name == b"transfer-encoding" and value != b"chunked":
            raise BadRequest("The only transfer encoding is chunked.")

    def on_headers_complete(self) -> None:
        """Refuse what could be read in two ways; then let uvicorn start the app."""
        version = self.parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise BadRequest("Only HTTP/1.0 and HTTP/1.1 are spoken.")
        if self._hosts > 1 or (self._hosts == 0 and version == "1.1"):
            raise BadRequest("There must be one Host header.")
        names = [name for name, _ in self.headers]
        if b"transfer-encoding" in names and (
            version == "1.0" or b"content-length" in names or names.count(b"transfer-encoding") > 1
        ):
            raise BadRequest("The request's length is ambiguous.")
        self._enter(Phase.BODY)
        self._begin_cycle(version)

    def _begin_cycle(self, version: str) -> None:
        """Complete the scope and start the app, or queue behind the request before."""
        target = httptools.parse_url(self.url)
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["raw_path"] = target.path
        scope["path"] = unquote(target.path.decode("ascii"))
        scope["query_string"] = target.query or b""
        before, cycle = self.cycle, self._new_cycle(version)
        scope["extensions"] = {ABORT: self.transport.abort, WATCH: cycle.watch}
        self.cycle = cycle
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def _new_cycle(self, version: str) -> Cycle:
        return Cycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        assert isinstance(cycle, Cycle)
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    # The request's body

    def on_body(self, body: bytes) -> None:
        """Count what comes: every mebibyte buys a second."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the clock."""
        self._phase = Phase.IDLE
        self._forget_deadline()
        super().on_message_complete()

    # Deadlines

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._phase_began = self.loop.time()
        self._forget_deadline()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _watch(self) -> None:
        self._deadline = self.loop.call_at(self._phase_ends(), self._look_at_the_clock)

    def _phase_ends(self) -> float:
        if self._phase is Phase.HEAD:
            return self._phase_began + self._limits.header_seconds
        bought = self._body_bytes / MEBIBYTE
        return self._phase_began + self._limits.body_seconds + bought

    def _look_at_the_clock(self) -> None:
        self._deadline = None
        if self._phase is Phase.IDLE or self.transport.is_closing():
            return
        if self.loop.time() < self._phase_ends():
            self._watch()
            return
        if self._metrics is not None:
            phase = "headers" if self._phase is Phase.HEAD else "body"
            self._metrics.slow_clients.labels(phase).inc()
        self._refuse(RequestTimeout())

    # Refusals

    def send_400_response(self, msg: str) -> None:
        """Say uvicorn's own refusals in JSON too."""
        self._refuse(BadRequest(msg))

    def _refuse(self, error: ProxyError) -> None:
        """Answer with an error and close; never into the middle of another request's answer."""
        if self._refused:
            return
        self._refused = True
        self._forget_deadline()
        if self._metrics is not None:
            self._metrics.refused_connections.labels(error.code).inc()
        if self._answers_another_request():
            assert self._running is not None
            self._running.keep_alive = False
            return
        may_speak = self._running is None or (
            self._running.response_complete or not self._running.response_started
        )
        self._dismiss_running_request(error)
        if may_speak:
            body = error_body(error)
            lines = [STATUS_LINE[error.status]]
            for name, value in [*self.server_state.default_headers, *error_headers(error, body)]:
                lines += (name, b": ", value, b"\r\n")
            if not error.closes_connection:
                lines.append(b"connection: close\r\n")
            self.transport.write(b"".join([*lines, b"\r\n", body]))
        self._close_slowly()

    def _answers_another_request(self) -> bool:
        """Tell whether the request at fault stands behind one that is still being answered."""
        running = self._running
        if running is None or running.response_complete:
            return False
        return running is not self.cycle or not running.more_body

    def _dismiss_running_request(self, error: ProxyError) -> None:
        """Let the app know that the rest of its request will not come."""
        cycle = self._running
        if cycle is not None and not cycle.response_complete:
            if isinstance(error, RequestTimeout):
                cycle.scope[TIMED_OUT] = True  # type: ignore[literal-required]
            cycle.disconnect()

    def _close_slowly(self) -> None:
        """Let the answer arrive before the connection goes: unread input would reset it."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        else:
            self.transport.close()


_JUDGED = frozenset({b"host", b"expect", b"transfer-encoding"})


def _cause(error: BaseException) -> ProxyError:
    """Return the refusal that a parser callback raised."""
    cause = error.__cause__ or error.__context__
    return cause if isinstance(cause, ProxyError) else BadRequest("The request is not valid HTTP.")
