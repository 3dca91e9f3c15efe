"""The client for upstreams: send a call, return its reply, map foreign errors to our own."""

import ssl
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from chat_proxy import errors
from chat_proxy.http.client.answer_reader import NotHttp
from chat_proxy.http.client.connection import Connection, OnPiece, ReusedConnectionClosed
from chat_proxy.http.client.dialler import Target, TlsFailed, target_of
from chat_proxy.http.client.pool import Answer, ConnectionPool, IdleConnections, request_message
from chat_proxy.http.client.resolver import NameNotResolved
from chat_proxy.http.headers import RawHeaders, values_of
from chat_proxy.upstream.breaker import Breakers, Report
from chat_proxy.upstream.header_rules import answered

REMEMBERED_TARGETS = 1_000
FETCHED_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class UpstreamPolicy:
    """How connections to upstreams are made, and when the breaker opens."""

    ca_file: Path | None
    connect_seconds: float
    keep_alive_seconds: float
    breaker_failures: int
    breaker_seconds: float


@dataclass(slots=True)
class Call:
    """One request to an upstream, ready to be sent."""

    method: str
    base_url: str
    path: str
    headers: RawHeaders
    body: bytes = b""
    query: bytes = b""


class Reply(Answer):
    """An upstream's answer whose body is still arriving; always release it."""

    __slots__ = ("_values", "headers", "retried", "status")

    def __init__(self, connection: Connection, idle: IdleConnections, *, retried: bool) -> None:
        self.status = connection.status
        self.retried = retried
        self.headers = answered(connection.headers)
        self._values = values_of(self.headers)
        super().__init__(connection, idle)

    @property
    def content_type(self) -> bytes:
        """The media type in lower case, without parameters."""
        return self._values.get(b"content-type", b"").partition(b";")[0].strip().lower()

    @property
    def is_encoded(self) -> bool:
        """Whether the body is compressed, so that the proxy cannot read it."""
        return self._values.get(b"content-encoding", b"").lower() not in (b"", b"identity")

    async def read_some(self, on_piece: OnPiece | None = None) -> bytes:
        """Return the next bytes that `on_piece` did not take, empty at the end."""
        try:
            return await super().read_some(on_piece)
        except httpx.TransportError as error:
            raise our_error(error) from error


class Upstream:
    """Send calls over one pool of connections; its breakers are keyed by base URL."""

    def __init__(self, policy: UpstreamPolicy, report: Report = lambda _, __: None) -> None:
        self._policy = policy
        self._pool: ConnectionPool | None = None
        self._targets: dict[tuple[str, str], Target] = {}
        self.breakers = Breakers(policy.breaker_failures, policy.breaker_seconds, report=report)

    def open(self) -> None:
        """Make the pool; call it in the event loop that will use it."""
        self._pool = ConnectionPool(
            ssl.create_default_context(cafile=self._policy.ca_file),
            connect_seconds=self._policy.connect_seconds,
            keep_alive_seconds=self._policy.keep_alive_seconds,
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._pool is not None:
            await self._pool.aclose()

    async def send(self, call: Call) -> Reply:
        """Return the upstream's answer, whatever its status; raise an UpstreamError without one."""
        breaker = self.breakers.of(call.base_url)
        breaker.check()
        pool = self._open_pool()
        target = self._target(call)
        try:
            message = request_message(call.method, target, framed(call), call.body)
            retried = False
            try:
                connection = await pool.send(target, message)
            except ReusedConnectionClosed:
                retried = True
                connection = await pool.send(target, message, fresh=True)
            reply = Reply(connection, pool.idle, retried=retried)
        except httpx.TransportError as error:
            ours = our_error(error)
            if isinstance(ours, _UNREACHABLE):
                breaker.failed()
            else:
                breaker.probe_cancelled()
            raise ours from error
        except BaseException:
            breaker.probe_cancelled()
            raise
        breaker.succeeded()
        return reply

    async def fetch(
        self, method: str, url: str, headers: RawHeaders, content: bytes | None = None
    ) -> httpx.Response:
        """Return a small answer to a request of the proxy's own, read to its end."""
        headers = [*headers, (b"accept-encoding", b"identity")]
        try:
            return await self._fetch(httpx.Request(method, url, headers=headers, content=content))
        except httpx.TransportError as error:
            raise our_error(error) from error

    async def _fetch(self, request: httpx.Request) -> httpx.Response:
        response = await self._open_pool().handle_async_request(request)
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise errors.UpstreamInvalidResponse
            body = b""
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > FETCHED_BYTES:
                    raise errors.UpstreamResponseTooLarge
        finally:
            await response.aclose()
        return httpx.Response(response.status_code, headers=response.headers, content=body)

    def is_dialling(self, base_url: str) -> bool:
        """Return whether a request waits for a new connection to this upstream."""
        return self._open_pool().is_dialling(target_of(httpx.URL(base_url)))

    def _open_pool(self) -> ConnectionPool:
        if self._pool is None:
            raise RuntimeError("open() comes before the first call")
        return self._pool

    def _target(self, call: Call) -> Target:
        """Return the parsed address; the few in use are remembered."""
        key = (call.base_url, call.path)
        target = self._targets.get(key)
        if target is None:
            target = target_of(httpx.URL(call.base_url + call.path))
            if len(self._targets) < REMEMBERED_TARGETS:
                self._targets[key] = target
        return replace(target, path=target.path + b"?" + call.query) if call.query else target


def framed(call: Call) -> RawHeaders:
    """Return the call's headers with those that frame its body."""
    headers = [*call.headers, (b"accept-encoding", b"identity")]
    if call.body or call.method != "GET":
        headers.append((b"content-length", b"%d" % len(call.body)))
    return headers


def our_error(error: httpx.TransportError) -> errors.UpstreamError:
    """Return our error with the same meaning; no error of httpx leaves this module."""
    for foreign, ours in _MEANINGS:
        if isinstance(error, foreign):
            return ours()
    return errors.UpstreamError()


# What opens the breaker: the same for every tenant, whatever was asked.
_UNREACHABLE = (
    errors.UpstreamDnsError,
    errors.UpstreamTlsError,
    errors.UpstreamConnectTimeout,
    errors.UpstreamConnectError,
    errors.UpstreamReset,
)
# Read from the top: the first match is taken, so special errors come before general ones.
_MEANINGS: tuple[tuple[type[httpx.TransportError], type[errors.UpstreamError]], ...] = (
    (NameNotResolved, errors.UpstreamDnsError),
    (TlsFailed, errors.UpstreamTlsError),
    (httpx.ConnectTimeout, errors.UpstreamConnectTimeout),
    (httpx.TimeoutException, errors.UpstreamFirstByteTimeout),
    (httpx.ConnectError, errors.UpstreamConnectError),
    (NotHttp, errors.UpstreamInvalidResponse),
    (httpx.LocalProtocolError, errors.UpstreamInvalidResponse),
    (httpx.TransportError, errors.UpstreamReset),
)
