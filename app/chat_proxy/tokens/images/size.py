"""Width and height of an image, read from the few base64 characters that contain them.

Only the four-character groups of the needed bytes are decoded, so a 20 MB photo takes
microseconds. Anything but valid base64 of a known format gives None.
"""

from binascii import Error, a2b_base64
from collections.abc import Callable
from typing import Final, NamedTuple

MAX_PIXELS: Final = 1_000_000_000
"""No decoder opens an image of more pixels: its header is not to be believed."""
_MAX_JPEG_SEGMENTS: Final = 64
_MAX_PREFIX_CHARS: Final = 256
_HEIF_HEAD_BYTES: Final = 2_048
_JPEG_WITHOUT_SIZE: Final = frozenset((0xC4, 0xC8, 0xCC))

Peek = Callable[[int, int], bytes]


class Size(NamedTuple):
    """The size of an image in pixels."""

    width: int
    height: int


def image_size(data: str) -> Size | None:
    """Return the size of the image in a data URL or bare base64, None if it cannot be read."""
    start = _base64_start(data)
    if start is None:
        return None

    def peek(offset: int, length: int) -> bytes:
        """Decode `length` bytes at `offset`; fewer at the end of the data."""
        first = offset // 3
        last = (offset + length + 2) // 3
        group = a2b_base64(data[start + 4 * first : start + 4 * last], strict_mode=True)
        return group[offset - 3 * first :][:length]

    try:
        size = _size(peek)
    except (Error, ValueError):
        return None
    if size is None or min(size) <= 0 or size.width * size.height > MAX_PIXELS:
        return None
    return size


def base64_of(data: str) -> str | None:
    """Return the base64 of a data URL, or of bare base64; None if there is none."""
    start = _base64_start(data)
    return None if start is None else data[start:]


def _base64_start(data: str) -> int | None:
    if data[:5].lower() != "data:":
        return 0
    comma = data.find(",", 0, _MAX_PREFIX_CHARS)
    return comma + 1 if data[:comma].lower().endswith(";base64") else None


def _size(peek: Peek) -> Size | None:
    head = peek(0, 30)
    if len(head) < 26:
        return None
    if head.startswith(b"\xff\xd8\xff"):
        return _jpeg(peek)
    if head[4:8] == b"ftyp":
        return _heif(peek)
    read = next((read for mark, read in _READERS if head.startswith(mark)), None)
    return read(head) if read else None


def _png(head: bytes) -> Size | None:
    return Size(_big(head[16:20]), _big(head[20:24])) if head[12:16] == b"IHDR" else None


def _gif(head: bytes) -> Size:
    return Size(_little(head[6:8]), _little(head[8:10]))


def _jpeg(peek: Peek) -> Size | None:
    """Skip segments such as EXIF and colour profiles up to the frame header."""
    offset = 2
    for _ in range(_MAX_JPEG_SEGMENTS):
        segment = peek(offset, 9)
        if len(segment) < 9 or segment[0] != 0xFF:
            return None
        marker = segment[1]
        if marker == 0xFF:  # a fill byte
            offset += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _JPEG_WITHOUT_SIZE:
            return Size(_big(segment[7:9]), _big(segment[5:7]))
        elif marker == 0xDA:  # start of the image data
            return None
        elif marker == 0x01 or 0xD0 <= marker <= 0xD9:  # a marker without a length
            offset += 2
        else:
            offset += 2 + _big(segment[2:4])
    return None


def _webp(head: bytes) -> Size | None:
    if len(head) < 30 or head[8:12] != b"WEBP":
        return None
    form = head[12:16]
    if form == b"VP8X":
        return Size(_little(head[24:27]) + 1, _little(head[27:30]) + 1)
    if form == b"VP8L" and head[20] == 0x2F:
        bits = _little(head[21:25])
        return Size((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if form == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        return Size(_little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF)
    return None


def _bmp(head: bytes) -> Size:
    if _little(head[14:18]) == 12:
        return Size(_little(head[18:20]), _little(head[20:22]))
    height = int.from_bytes(head[22:26], "little", signed=True)  # negative: stored top-down
    return Size(_little(head[18:22]), abs(height))


def _heif(peek: Peek) -> Size | None:
    """Return the largest size in an AVIF or HEIC header, which also lists tiles and thumbnails."""
    head = peek(0, _HEIF_HEAD_BYTES)
    found: list[Size] = []
    offset = head.find(b"ispe")
    while offset >= 0:
        found.append(
            Size(_big(head[offset + 8 : offset + 12]), _big(head[offset + 12 : offset + 16]))
        )
        offset = head.find(b"ispe", offset + 4)
    return max(found, key=lambda size: size.width * size.height, default=None)


def _big(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _little(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


_READERS: Final[tuple[tuple[bytes, Callable[[bytes], Size | None]], ...]] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"RIFF", _webp),
    (b"GIF87a", _gif),
    (b"GIF89a", _gif),
    (b"BM", _bmp),
)
