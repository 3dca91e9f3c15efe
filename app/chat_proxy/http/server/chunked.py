"""How an answer looks on the wire: its first line, and its pieces where it comes in chunks."""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

FIRST_LINES = {status: line.removesuffix(b"\r\n") for status, line in STATUS_LINE.items()}
LAST_CHUNK = b"0\r\n\r\n"

# Most pieces of a stream are smaller: their chunks' first lines are at hand.
SMALL_BYTES = 1024
_SIZE_LINES = [b"%x\r\n" % size for size in range(SMALL_BYTES)]


def chunk_of(piece: bytes) -> bytes:
    """Return a piece of a body as a chunk; nothing for nothing, which would be the last chunk."""
    size = len(piece)
    if size >= SMALL_BYTES:
        return b"%x\r\n%b\r\n" % (size, piece)
    return _SIZE_LINES[size] + piece + b"\r\n" if piece else b""
