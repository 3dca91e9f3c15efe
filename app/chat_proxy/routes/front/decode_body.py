"""Decode compressed request bodies piece by piece, so that a small one cannot fill the memory."""

import asyncio
import sys
import zlib
from collections.abc import Callable
from gzip import GzipFile
from importlib import import_module
from io import BufferedIOBase, BytesIO
from typing import Any

from chat_proxy.errors import InvalidContentEncoding, UnsupportedContentEncoding

ENCODINGS = frozenset({b"gzip", b"x-gzip", b"zstd"})
FIRST_BYTES = 256 * 1024
"""What is decoded at once: most bodies, as a whole."""
PIECE_BYTES = 1024 * 1024
WINDOW_LOG = 23
"""The largest window of a zstd body, 8 MiB: what RFC 9659 allows on the web."""


def encoding_in(value: bytes) -> bytes:
    """Return the encoding that a `content-encoding` names, empty for none.

    Raise UnsupportedContentEncoding for one that is not decoded, and for several.
    """
    encoding = value.strip().lower()
    if encoding in (b"", b"identity"):
        return b""
    if encoding not in ENCODINGS:
        raise UnsupportedContentEncoding
    return encoding


async def decode(body: bytes, encoding: bytes, reserve: Callable[[int], None]) -> bytes:
    """Return a decoded body; raise InvalidContentEncoding if it is damaged or incomplete.

    `reserve` gets the size so far after each piece, and raises if it is too large.
    """
    decoder = _Decoder(body, encoding)
    piece = decoder.read(FIRST_BYTES)
    reserve(len(piece))
    if len(piece) < FIRST_BYTES:
        return piece
    decoded = BytesIO()
    while piece:
        decoded.write(piece)
        piece = await asyncio.to_thread(decoder.read, PIECE_BYTES)
        reserve(decoded.tell() + len(piece))
    return decoded.getvalue()


class _Decoder:
    """Reads a compressed body."""

    def __init__(self, body: bytes, encoding: bytes) -> None:
        self._errors: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
        self._reader: BufferedIOBase
        if encoding == b"zstd":
            zstd = _zstd()
            options = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
            self._errors = (EOFError, zstd.ZstdError)
            self._reader = zstd.ZstdFile(BytesIO(body), options=options)
        else:
            self._reader = GzipFile(fileobj=BytesIO(body))

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer than `size` only at the end."""
        pieces, left = [], size
        try:
            while left and (piece := self._reader.read(left)):
                pieces.append(piece)
                left -= len(piece)
        except self._errors as error:
            raise InvalidContentEncoding from error
        return b"".join(pieces)


def _zstd() -> Any:
    """Return Python's own zstd, which versions before 3.14 have as a package."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return import_module(name)  # not at the top: few processes need it
