"""A request's head as it arrives, within the limits and with one reading only.

What is ambiguous is refused: two readings of one request are how requests are smuggled.
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

_JUDGED = frozenset({b"host", b"expect", b"transfer-encoding"})


class Phase(Enum):
    """Where a connection stands between two requests."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


# Looked up once: to ask an enumeration for a member costs as much as a call.
IDLE, HEAD, BODY = Phase


class HeadReader:
    """Takes a head from the parser, which calls the `on_…` methods."""

    __slots__ = (
        "_encodings",
        "_expects",
        "_fed_bytes",
        "_harmless_bytes",
        "_head_left",
        "_hosts",
        "_limits",
        "_measured",
        "_phase",
        "_room",
        "headers",
        "parser",
        "url",
    )
    parser: httptools.HttpRequestParser

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._harmless_bytes = limits.harmless_bytes
        self._phase = HEAD
        # What came since the connection was idle: at least the head, often more.
        self._fed_bytes = 0
        self._forget_head()

    def _forget_head(self) -> None:
        """Be ready for the next one."""
        self.url = b""
        self.headers: RawHeaders = []
        self._hosts = 0
        self._encodings = 0
        self._expects = False
        self._room = self._limits.max_headers
        self._measured = 0
        self._head_left = self._limits.max_header_bytes

    def on_url(self, url: bytes) -> None:
        """Take the target, in origin form only: no absolute or authority form."""
        self._phase = HEAD
        self.url += url
        if len(self.url) > self._limits.max_header_line_bytes:
            raise HeadersTooLarge
        if self.url[0] != SLASH:
            raise BadRequest("The request target must be a path.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header if there is room for one more; behind the head there is none."""
        headers = self.headers
        if len(headers) >= self._room:
            self._drop(name, value)
            return
        name = name.lower()
        headers.append((name, value))
        if name in _JUDGED:
            if name == b"host":
                self._hosts += 1
            else:
                self._judge(name, value.lower())

    def _judge(self, name: bytes, value: bytes) -> None:
        """Look at a header that decides how the request is read."""
        if name == b"expect":
            if value.strip() != b"100-continue":
                raise ExpectationFailed
            self._expects = True
        else:
            self._encodings += 1
            if value != b"chunked":
                raise BadRequest("The only transfer encoding is chunked.")

    def _drop(self, name: bytes, value: bytes) -> None:
        """Refuse one header too many; what stands behind a chunked body counts and is dropped."""
        if self._phase is HEAD or not self._fits() or not self._has_room_for(name, value):
            raise HeadersTooLarge

    def _is_too_large(self) -> bool:
        """Tell whether a header or all of them are; most heads are too small to be measured."""
        return self._fed_bytes > self._harmless_bytes and not self._fits()

    def _fits(self) -> bool:
        """Hold the headers that came since the last time against the limits."""
        since, self._measured = self._measured, len(self.headers)
        return all(self._has_room_for(*header) for header in self.headers[since:])

    def _has_room_for(self, name: bytes, value: bytes) -> bool:
        size = len(name) + len(value) + 4
        self._head_left -= size
        return size <= self._limits.max_header_line_bytes and self._head_left >= 0

    def _read_version(self) -> str:
        """Return the version of HTTP, or raise if the head could be read in two ways."""
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise BadRequest("Only HTTP/1.0 and HTTP/1.1 are spoken.")
        if self._hosts != 1 and (self._hosts or version == "1.1"):
            raise BadRequest("There must be one Host header.")
        if self._encodings and (
            version == "1.0" or self._encodings > 1 or value_of(self.headers, b"content-length")
        ):
            raise BadRequest("The request's length is ambiguous.")
        return version

    def _without_upgrade(self) -> bytes:
        """Return the head without its wish for another protocol, as the connection's last."""
        lines = [self.parser.get_method(), b" ", self.url]
        lines += (b" HTTP/", self.parser.get_http_version().encode("ascii"), b"\r\n")
        for name, value in [*self.headers, (b"connection", b"close")]:
            if name != b"upgrade":
                lines += (name, b": ", value, b"\r\n")
        return b"".join([*lines, b"\r\n"])


@lru_cache(REMEMBERED_TARGETS)
def parts_of(target: bytes) -> tuple[bytes, str, bytes]:
    """Take a request's target apart: its path as sent and as meant, and its query."""
    url = httptools.parse_url(target)
    return url.path, unquote(url.path.decode("ascii")), url.query or b""
