"""The framing of an answer: how the client finds its end, and whether the connection goes on."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from chat_proxy.errors import ProxyError
from chat_proxy.http.headers import RawHeaders, head_of

UNTIL_CLOSE = 1 << 63
FIRST_LINES = {status: line.removesuffix(b"\r\n") for status, line in STATUS_LINE.items()}
LAST_CHUNK = b"0\r\n\r\n"

# Most pieces of a stream are smaller: their size lines are prepared.
SMALL_BYTES = 1024
_SIZE_LINES = [b"%x\r\n" % size for size in range(SMALL_BYTES)]

_BODILESS = frozenset({204, 304})
_FRAMING = frozenset({b"content-length", b"connection"})
_CLOSE = (b"connection", b"close")


class ResponseFraming:
    """Turn an answer into bytes: with its length, in chunks, or until the connection closes.

    A base class of the cycle instead of a part of it: a part would be one more object per request.
    """

    __slots__ = (
        "_bytes_left",
        "_head",
        "_is_chunked",
        "_omits_body",
        "keep_alive",
        "more_body",
        "scope",
    )

    def __init__(self, scope: dict[str, Any], keep_alive: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        # Whether the request's body is still arriving.
        self.more_body = True
        self._head = b""
        self._is_chunked = False
        self._omits_body = False
        self._bytes_left = 0

    def _whole(self, status: int, headers: RawHeaders, body: bytes) -> bytes:
        """Return a whole answer with its length; `headers` is extended."""
        if status not in _BODILESS:
            headers.append((b"content-length", b"%d" % len(body)))
        self._settle_close(headers, is_announced=_CLOSE in headers)
        head = head_of(FIRST_LINES[status], headers)
        return head if self.scope["method"] == "HEAD" else head + body

    def _begin(self, status: int, headers: RawHeaders) -> None:
        """Choose the framing and hold the head for the first piece; `headers` is extended."""
        bytes_left = 0 if status in _BODILESS else UNTIL_CLOSE
        is_announced = False
        for name, value in headers:
            if name in _FRAMING:
                if name == b"content-length":
                    bytes_left = int(value)
                elif value == b"close":
                    is_announced = True
        self._settle_close(headers, is_announced=is_announced)
        self._omits_body = self.scope["method"] == "HEAD"
        self._is_chunked = bytes_left == UNTIL_CLOSE and self.scope["http_version"] != "1.0"
        self._bytes_left = 0 if self._is_chunked else bytes_left
        if self._is_chunked:
            headers.append((b"transfer-encoding", b"chunked"))
        self._head = head_of(FIRST_LINES[status], headers)

    def _settle_close(self, headers: RawHeaders, *, is_announced: bool) -> None:
        """Decide whether the connection goes on, and announce its close to the client.

        An answer to a request that has not arrived completely is the last on its connection.
        """
        if is_announced or self.more_body:
            self.keep_alive = False
        if not self.keep_alive and not is_announced:
            headers.append(_CLOSE)

    def _framed(self, body: bytes, more_body: bool) -> bytes:
        """Return a piece of the body as it is written, after the head if it is the first."""
        if self._omits_body:
            body = b""
            self._bytes_left = 0
        elif self._is_chunked:
            body = chunk_of(body) if more_body else chunk_of(body) + LAST_CHUNK
        elif len(body) > self._bytes_left:
            raise RuntimeError("the answer is longer than its content-length")
        else:
            self._bytes_left -= len(body)
        if self._head:
            body, self._head = self._head + body, b""
        return body


def chunk_of(piece: bytes) -> bytes:
    """Return a piece of a body as a chunk; empty for an empty piece, which would end the body."""
    size = len(piece)
    if size >= SMALL_BYTES:
        return b"%x\r\n%b\r\n" % (size, piece)
    return _SIZE_LINES[size] + piece + b"\r\n" if piece else b""


def last_answer(error: ProxyError, headers: RawHeaders, body: bytes) -> bytes:
    """Return an error response as it is written; it closes the connection."""
    if not error.closes_connection:
        headers = [*headers, (b"connection", b"close")]
    return head_of(FIRST_LINES[error.status], headers) + body
