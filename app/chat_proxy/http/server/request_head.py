"""The head of a request: read within the limits, and refused if it is ambiguous.

Request smuggling needs a request that two servers read in different ways.
"""

from enum import Enum, auto
from functools import lru_cache
from urllib.parse import unquote

import httptools

from chat_proxy.errors import BadRequest, ExpectationFailed, HeadersTooLarge
from chat_proxy.http.headers import RawHeaders, value_of
from chat_proxy.http.server.limits import ConnectionLimits

REMEMBERED_TARGETS = 256
SLASH = ord("/")

_CHECKED = frozenset({b"host", b"expect", b"transfer-encoding"})


class Phase(Enum):
    """The part of a request that a connection is waiting for or reading."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


# Looked up once: access to a member of an enumeration costs as much as a call.
IDLE, HEAD, BODY = Phase


class HeadReader:
    """Collect a head from the parser, which calls the `on_…` methods."""

    __slots__ = (
        "_encodings",
        "_expects_continue",
        "_fed_bytes",
        "_harmless_bytes",
        "_head_left",
        "_hosts",
        "_limits",
        "_max_kept",
        "_measured",
        "_phase",
        "headers",
        "parser",
        "url",
    )
    parser: httptools.HttpRequestParser

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._harmless_bytes = limits.harmless_bytes
        self._phase = HEAD
        # Bytes received since the connection was idle: at least the head, often more.
        self._fed_bytes = 0
        self._forget_head()

    def _forget_head(self) -> None:
        """Reset the state for the next head."""
        self.url = b""
        self.headers: RawHeaders = []
        self._hosts = 0
        self._encodings = 0
        self._expects_continue = False
        self._max_kept = self._limits.max_headers
        self._measured = 0
        self._head_left = self._limits.max_header_bytes

    def on_url(self, url: bytes) -> None:
        """Add to the target, in origin form only: no absolute or authority form."""
        self._phase = HEAD
        self.url += url
        if len(self.url) > self._limits.max_header_line_bytes:
            raise HeadersTooLarge
        if self.url[0] != SLASH:
            raise BadRequest("The request target must be a path.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, unless there are too many; trailers after the head are never kept."""
        headers = self.headers
        if len(headers) >= self._max_kept:
            self._drop(name, value)
            return
        name = name.lower()
        headers.append((name, value))
        if name in _CHECKED:
            if name == b"host":
                self._hosts += 1
            else:
                self._check(name, value.lower())

    def _check(self, name: bytes, value: bytes) -> None:
        """Check a header that decides how the body is read."""
        if name == b"expect":
            if value.strip() != b"100-continue":
                raise ExpectationFailed
            self._expects_continue = True
        else:
            self._encodings += 1
            if value != b"chunked":
                raise BadRequest("The only supported transfer encoding is chunked.")

    def _drop(self, name: bytes, value: bytes) -> None:
        """Refuse a header too many; a trailer after a chunked body is counted and dropped."""
        if self._phase is HEAD or not self._fits() or not self._count_header(name, value):
            raise HeadersTooLarge

    def _is_too_large(self) -> bool:
        """Return whether a header or the head exceeds a limit; small heads are not measured."""
        return self._fed_bytes > self._harmless_bytes and not self._fits()

    def _fits(self) -> bool:
        """Return whether the headers since the last call are within the limits."""
        since, self._measured = self._measured, len(self.headers)
        return all(self._count_header(*header) for header in self.headers[since:])

    def _count_header(self, name: bytes, value: bytes) -> bool:
        """Count the size of a header; return whether it is still within the limits."""
        size = len(name) + len(value) + 4
        self._head_left -= size
        return size <= self._limits.max_header_line_bytes and self._head_left >= 0

    def _read_version(self) -> str:
        """Return the HTTP version; raise BadRequest if the head is ambiguous."""
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise BadRequest("Only HTTP/1.0 and HTTP/1.1 are supported.")
        if self._hosts != 1 and (self._hosts or version == "1.1"):
            raise BadRequest("There must be one Host header.")
        if self._encodings and (
            version == "1.0" or self._encodings > 1 or value_of(self.headers, b"content-length")
        ):
            raise BadRequest("The request's length is ambiguous.")
        return version

    def _without_upgrade(self) -> bytes:
        """Return the head without its Upgrade header, with `connection: close`."""
        lines = [self.parser.get_method(), b" ", self.url]
        lines += (b" HTTP/", self.parser.get_http_version().encode("ascii"), b"\r\n")
        for name, value in [*self.headers, (b"connection", b"close")]:
            if name != b"upgrade":
                lines += (name, b": ", value, b"\r\n")
        return b"".join([*lines, b"\r\n"])


@lru_cache(REMEMBERED_TARGETS)
def parts_of(target: bytes) -> tuple[bytes, str, bytes]:
    """Return the raw path, the decoded path and the query of a target; the same few recur."""
    url = httptools.parse_url(target)
    return url.path, unquote(url.path.decode("ascii")), url.query or b""
