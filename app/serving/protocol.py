"""HTTP as it arrives: uvicorn's httptools protocol with deadlines, limits and one reading only.

uvicorn waits for ever for headers and bodies, takes any number of them, and says its errors in
plain text. What is ambiguous here is refused: two readings of one request are how requests are
smuggled.
"""

import asyncio
import socket
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.errors import BadRequest, ExpectationFailed, HeadersTooLarge, ProxyError, RequestTimeout
from app.routes.client import ABORT, REFUSED, WATCH
from app.routes.error_responses import error_body, error_headers
from app.routes.front import request_id
from app.serving.cycle import FIRST_LINES, Cycle
from app.telemetry.logs import say
from app.telemetry.metrics import Metrics
from app.upstream.headers import head_of, value_of

LINGER_SECONDS = 5.0
MAX_WAITING = 8
REMEMBERED_TARGETS = 256
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How long and how large a request's arrival may be."""

    header_seconds: float
    body_seconds: float
    max_header_bytes: int
    max_header_line_bytes: int
    max_headers: int
    stall_seconds: float


class Phase(Enum):
    """Where a connection stands between two requests."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


# Looked up once: to ask an enumeration for a member costs as much as a call.
_IDLE, _HEAD, _BODY = Phase


class GuardedProtocol(HttpToolsProtocol):
    """One client connection."""

    __slots__ = (
        "_asgi",
        "_body_began",
        "_body_bytes",
        "_deadline",
        "_encodings",
        "_head_left",
        "_hosts",
        "_idle_since",
        "_limits",
        "_line_bytes",
        "_max_line_bytes",
        "_metrics",
        "_phase",
        "_phase_began",
        "_refused",
        "_running",
        "_waiting",
        "unwelcome",
    )
    cycle: Cycle | None  # type: ignore[assignment]

    def __init__(self, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(**options)
        self.unwelcome: ProxyError | None = None
        self._limits = limits
        self._max_line_bytes = limits.max_header_line_bytes
        self._metrics: Metrics | None = self.app_state.get("metrics")
        self._asgi = {"version": self.asgi_version, "spec_version": "2.3"}
        self._phase = _HEAD
        self._phase_began = 0.0
        self._idle_since = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self._refused = False
        self._running: Cycle | None = None
        self._waiting: deque[Cycle] = deque()
        self._line_bytes = 0
        self._body_bytes = 0
        self._body_began = 0
        self._hosts = 0
        self._encodings = 0
        self._head_left = 0

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the client its time for the first request."""
        super().connection_made(transport)
        give_up_unread(transport, self._limits.stall_seconds)
        self._start_the_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the running request; those that wait behind it are forgotten."""
        self._forget_deadline()
        self._unset_keepalive_if_required()
        self.connections.discard(self)
        if self._running is not None:
            self._running.disconnect()
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self.parser = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Parse, and start the clock if the request is not complete."""
        if self._refused:
            return
        if self._phase is _IDLE:
            self._enter(_HEAD)
        body_bytes = self._body_bytes
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            self._refuse(_cause(error))
        except httptools.HttpParserError:
            self._refuse(BadRequest("The request is not valid HTTP."))
        else:
            if self._phase is not _IDLE:
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
            if self._line_bytes > self._limits.max_header_line_bytes:
                self._refuse(HeadersTooLarge())
                return
        if self._deadline is None:
            self._start_the_clock()

    def _decline_upgrade(self, rest: bytes) -> None:
        """Read the request again without its wish for another protocol, and nothing behind it.

        The parser leaves out the body of such a request, and Java's client sends them by default.
        """
        lines = [self.parser.get_method(), b" ", self.url]
        lines += (b" HTTP/", self.parser.get_http_version().encode("ascii"), b"\r\n")
        for name, value in [*self.headers, (b"connection", b"close")]:
            if name != b"upgrade":
                lines += (name, b": ", value, b"\r\n")
        self.parser = _new_parser(self)
        self.data_received(b"".join([*lines, b"\r\n", rest]))

    # The request's head

    def on_message_begin(self) -> None:
        """Start counting."""
        if self._phase is _IDLE:
            self._enter(_HEAD)
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._hosts = 0
        self._encodings = 0
        self._head_left = self._limits.max_header_bytes

    def on_url(self, url: bytes) -> None:
        """Take the target, in origin form only: no absolute or authority form."""
        self.url += url
        if len(self.url) > self._max_line_bytes:
            raise HeadersTooLarge
        if not self.url.startswith(b"/"):
            raise BadRequest("The request target must be a path.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, within the limits; what stands behind a chunked body is dropped."""
        size = len(name) + len(value) + 4
        self._head_left = left = self._head_left - size
        if size > self._max_line_bytes or left < 0:
            raise HeadersTooLarge
        if self._phase is _BODY:
            return
        name = name.lower()
        headers = self.headers
        headers.append((name, value))
        if len(headers) > self._limits.max_headers:
            raise HeadersTooLarge
        if name in _JUDGED:
            self._judge(name, value.lower())

    def _judge(self, name: bytes, value: bytes) -> None:
        """Look at the headers that decide how a request is read."""
        if name == b"host":
            self._hosts += 1
        elif name == b"expect":
            if value.strip() != b"100-continue":
                raise ExpectationFailed
            self.expect_100_continue = True
        else:
            self._encodings += 1
            if value != b"chunked":
                raise BadRequest("The only transfer encoding is chunked.")

    def on_headers_complete(self) -> None:
        """Refuse what could be read in two ways; then start the app."""
        if self.unwelcome is not None and self.url.startswith(b"/v1/"):
            raise self.unwelcome
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise BadRequest("There is no tunnel here.")
            return
        version = self.parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise BadRequest("Only HTTP/1.0 and HTTP/1.1 are spoken.")
        if self._hosts > 1 or (self._hosts == 0 and version == "1.1"):
            raise BadRequest("There must be one Host header.")
        if self._encodings and (
            version == "1.0" or self._encodings > 1 or value_of(self.headers, b"content-length")
        ):
            raise BadRequest("The request's length is ambiguous.")
        self._enter(_BODY)
        self._body_began = self._body_bytes
        self._begin_cycle(version)

    def _begin_cycle(self, version: str) -> None:
        """Complete the scope and start the app, or queue behind the request before."""
        raw_path, path, query = parts_of(self.url)
        scope = {
            "type": "http",
            "asgi": self._asgi,
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": self.parser.get_method().decode("ascii"),
            "root_path": self.root_path,
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
            "state": self.app_state.copy(),
        }
        is_modern = version != "1.0"
        before = self.cycle
        self.cycle = cycle = Cycle(
            self,
            scope,
            keep_alive=is_modern and self.parser.should_keep_alive(),
            wants_to_continue=is_modern and self.expect_100_continue,
        )
        scope["extensions"] = {ABORT: self.transport.abort, WATCH: cycle.watch}
        if before is None or before.response_complete:
            self._start(cycle)
        else:
            self._wait_in_line(cycle)

    def _wait_in_line(self, cycle: Cycle) -> None:
        """Queue a request, and read on for a while: only who reads notices that a client leaves."""
        self._waiting.append(cycle)
        if len(self._waiting) >= MAX_WAITING:
            self.flow.pause_reading()

    def _start(self, cycle: Cycle) -> None:
        self._running = cycle
        cycle.start(self.app)

    # The request's body

    def on_body(self, body: bytes) -> None:
        """Hand on what comes, and count it: every mebibyte buys a second."""
        self._body_bytes += len(body)
        assert self.cycle is not None
        if not self.cycle.response_complete and self.cycle.take(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Stop the clock and let the app know."""
        if self._phase is _HEAD:
            return  # An upgrade: the parser gives up before the request has begun.
        self._enter(_IDLE)
        assert self.cycle is not None
        if self._encodings and not self.parser.should_keep_alive():
            # A trailer said so, and the parser reads nothing behind it: no one may wait for that.
            self.cycle.keep_alive = False
        if not self.cycle.response_complete:
            self.cycle.end_body()

    def on_response_complete(self) -> None:
        """Go on with the next request, or close."""
        assert self._running is not None
        if self._running.keep_alive:
            self._go_on()
        elif self._running.more_body or self._refused:
            self._refused = True
            self._forget_deadline()
            self._close_slowly()
        else:
            self.transport.close()

    def _go_on(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._waiting:
            self._start(self._waiting.popleft())
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._await_next(self.timeout_keep_alive)

    # Between two requests

    def _await_next(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """Close when the next request does not come; one timer sees to all pauses.

        While a request is there, nothing is awaited: the next timer starts behind its answer.
        """
        self.timeout_keep_alive_task = None
        assert self._running is not None
        if self._phase is not _IDLE or not self._running.response_complete:
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._await_next(left)
        else:
            self.timeout_keep_alive_handler()

    # Deadlines

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        if self._deadline is not None:
            self._forget_deadline()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _start_the_clock(self) -> None:
        """Begin to measure a phase that did not end as soon as it began; most do."""
        self._phase_began = self.loop.time()
        self._watch()

    def _watch(self) -> None:
        self._deadline = self.loop.call_at(self._phase_ends(), self._look_at_the_clock)

    def _phase_ends(self) -> float:
        if self._phase is _HEAD:
            return self._phase_began + self._limits.header_seconds
        bought = (self._body_bytes - self._body_began) / MEBIBYTE
        return self._phase_began + self._limits.body_seconds + bought

    def _look_at_the_clock(self) -> None:
        """Refuse a request that is late, but not while the proxy itself does not read on."""
        self._deadline = None
        if self.flow.read_paused:
            self._start_the_clock()
        elif self.loop.time() < self._phase_ends():
            self._watch()
        elif not self.transport.is_closing():
            if self._metrics is not None:
                phase = "headers" if self._phase is _HEAD else "body"
                self._metrics.slow_clients.labels(phase).inc()
            self._refuse(RequestTimeout())

    # Refusals

    def _refuse(self, error: ProxyError) -> None:
        """Answer with an error and close; never into the middle of another request's answer."""
        self._refused = True
        self._forget_deadline()
        if self._metrics is not None:
            self._metrics.refused_connections.labels(error.code).inc()
        running = self._running
        if running is None or running.response_complete:
            self._say_last(error)
        elif running is self.cycle and running.more_body:
            running.scope[REFUSED] = error
            running.disconnect()
            if running.response_started:
                self._close_slowly()
            else:
                self._say_last(error)
        else:
            self._close_behind_whole_requests()

    def _close_behind_whole_requests(self) -> None:
        """Let those before the one at fault be answered."""
        assert self.cycle is not None
        if self.cycle.more_body:
            self._waiting.pop()
        last = self._waiting[-1] if self._waiting else self._running
        assert last is not None
        last.keep_alive = False

    def _say_last(self, error: ProxyError) -> None:
        """Send the error as the connection's last answer; no endpoint will log this request."""
        identity = request_id(self.headers or [])
        say("request refused", request_id=identity, status=error.status, code=error.code)
        body = error_body(error)
        headers = [*self.server_state.default_headers, *error_headers(error, body)]
        headers.append((b"x-request-id", identity.encode("ascii")))
        if not error.closes_connection:
            headers.append((b"connection", b"close"))
        self.transport.write(head_of(FIRST_LINES[error.status], headers) + body)
        self._close_slowly()

    def _close_slowly(self) -> None:
        """Let the answer arrive before the connection goes: unread input would reset it."""
        self.flow.resume_reading()
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)


_JUDGED = frozenset({b"host", b"expect", b"transfer-encoding"})


@lru_cache(REMEMBERED_TARGETS)
def parts_of(target: bytes) -> tuple[bytes, str, bytes]:
    """Take a request's target apart: its path as sent and as meant, and its query."""
    url = httptools.parse_url(target)
    return url.path, unquote(url.path.decode("ascii")), url.query or b""


def give_up_unread(transport: asyncio.Transport, seconds: float) -> None:
    """Have the kernel break a connection whose client takes nothing for so long.

    Nobody else would once the answer is complete: closing waits until everything has been sent.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


def _new_parser(protocol: GuardedProtocol) -> httptools.HttpRequestParser:
    """Return a parser that ignores what stands behind a last request, as uvicorn's does."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _cause(error: BaseException) -> ProxyError:
    """Return the refusal that a parser callback raised."""
    cause = error.__cause__ or error.__context__
    return cause if isinstance(cause, ProxyError) else BadRequest("The request is not valid HTTP.")
