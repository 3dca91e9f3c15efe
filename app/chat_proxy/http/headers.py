"""Headers as bytes: the form in which both sides of the proxy read and write them."""

from collections.abc import Iterable, Mapping

RawHeaders = list[tuple[bytes, bytes]]
# As numbers: searching for a bytes object in bytes raises and catches an exception each time.
NUL, LF, CR = b"\0\n\r"


def head_of(first_line: bytes, headers: RawHeaders) -> bytes:
    """Return a message's head as it is written; raise ValueError if a header would break a line."""
    lines = list(map(b": ".join, headers))
    text = b"".join(lines)
    if LF in text or CR in text or NUL in text:
        raise ValueError("a header holds a line break")
    return b"\r\n".join((first_line, *lines, b"", b""))


def values_of(headers: RawHeaders) -> Mapping[bytes, bytes]:
    """Return the first value of every header by its name, for code that needs several."""
    return dict(reversed(headers))


def value_of(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    """Return the first value of a header, empty if there is none."""
    for name, value in headers:
        if name == wanted:
            return value
    return b""
