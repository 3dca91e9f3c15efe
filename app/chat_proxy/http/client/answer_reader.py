"""An upstream's answer as its parser reads it: the head within limits, the body in pieces."""

import httptools
import httpx

from chat_proxy.http.headers import RawHeaders

MAX_HEADER_BYTES = 32 * 1024
MAX_HEADERS = 128

# All but the tab, which is allowed in a value.
_CONTROLS = bytes(code for code in (*range(32), 127) if code != ord("\t"))
# A body in any other encoding would reach the client without the name of its encoding.
_TRANSFER_ENCODINGS = {b"chunked": True, b"identity": False}


class NotHttp(httpx.RemoteProtocolError):
    """The answer is not HTTP, or its headers are too large."""


class AnswerReader:
    """Collect one answer after another from the parser, which calls the `on_…` methods."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: RawHeaders = []
        self.is_whole = True
        self.has_head = False
        self._parser = lenient_parser(self)
        self._head_bytes_left = 0
        self._between_bytes = 0
        self._is_framed = False
        self._keeps_alive = False
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    def _expect_answer(self) -> None:
        """Reset the state for the next answer."""
        self.is_whole = self.has_head = self._is_framed = False
        self.headers = []
        self._head_bytes_left = MAX_HEADER_BYTES
        self._between_bytes = 0

    def _read(self, data: memoryview) -> None:
        """Parse some bytes; raise NotHttp if they are no answer, or headers or trailers never end.

        Trailers and chunk extensions are what comes without any of the body.
        """
        held_bytes = self._held_bytes
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._keeps_alive = False
        except httptools.HttpParserError as error:
            raise NotHttp(type(error).__name__) from error
        if not self.has_head:
            self._head_bytes_left -= len(data)
            if self._head_bytes_left <= 0:
                raise NotHttp("headers without end")
        elif self._held_bytes != held_bytes:
            self._between_bytes = 0
        elif not self.is_whole:
            self._between_bytes += len(data)
            if self._between_bytes > MAX_HEADER_BYTES:
                raise NotHttp("trailers without end")

    # Called by the parser

    def on_message_begin(self) -> None:
        """Notice the beginning of another answer after a whole one."""
        if self.is_whole:
            self._keeps_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers after the body are dropped."""
        if self.has_head:
            return
        name = name.lower()
        self.headers.append((name, value))
        if name == b"content-length":
            self._is_framed = True
        elif name == b"transfer-encoding":
            encoding = value.strip().lower()
            if encoding not in _TRANSFER_ENCODINGS:
                raise NotHttp("unknown transfer encoding")
            self._is_framed |= _TRANSFER_ENCODINGS[encoding]

    def on_headers_complete(self) -> None:
        """Begin the answer; an interim 1xx answer is dropped, whatever it says about a body."""
        if self.has_head:
            self._keeps_alive = False  # a second answer without a request
            return
        if len(self.headers) > MAX_HEADERS or self._is_head_too_large():
            raise NotHttp("headers without end")
        status = self._parser.get_status_code()
        if status < 100:
            raise NotHttp("no status")
        if status < 200 and status != 101:
            self.headers = []
            self._is_framed = False
            return
        if has_controls(b"".join([value for _, value in self.headers])):
            self.headers = [header for header in self.headers if not has_controls(header[1])]
        self.status = status
        self.has_head = True
        self._keeps_alive = self._parser.should_keep_alive()

    def _is_head_too_large(self) -> bool:
        """Measure a head that came in several reads; one read cannot hold more than the limit."""
        if self._head_bytes_left == MAX_HEADER_BYTES:
            return False
        return sum([len(name) + len(value) for name, value in self.headers]) > MAX_HEADER_BYTES

    def on_body(self, body: bytes) -> None:
        """Hold a piece until it is taken; bytes after a whole answer are dropped."""
        if self.is_whole:
            return
        self._pieces.append(body)
        self._held_bytes += len(body)

    def on_message_complete(self) -> None:
        """Mark the answer as complete."""
        if self.has_head:
            self.is_whole = True


def lenient_parser(reader: AnswerReader) -> httptools.HttpResponseParser:
    """Return a parser with the leniencies that all HTTP clients have."""
    parser = httptools.HttpResponseParser(reader)
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_cr_before_lf=True,
        lenient_spaces_after_chunk_size=True,
    )
    return parser


def has_controls(value: bytes) -> bool:
    """Return whether a header's value holds a control character, which no client expects."""
    return len(value.translate(None, _CONTROLS)) != len(value)
