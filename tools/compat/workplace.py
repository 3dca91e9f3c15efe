"""The folder a client works in: pages to read, far more than fit into a window, and a picture."""

import random
import struct
import zlib
from pathlib import Path

PAGES = 30
IMAGE = "picture.png"
PROOF = "proof.txt"
WORDS_PER_LINE = 12
LAND = "amber basin cedar delta ember fjord grove harbour island jetty kettle lantern meadow needle"
MORE = "orchard pebble quarry ridge saddle timber upland valley willow yonder zephyr"
_WORDS = f"{LAND} {MORE}".split()


def page_path(folder: Path, number: int) -> Path:
    """Where a page lies, the first being number 1."""
    return folder / f"page-{number:02d}.txt"


def furnish(folder: Path, page_tokens: int, steps: int, fourth: int = 1) -> None:
    """Write a page for every step and the picture; every fourth page is so many times as long."""
    for number in range(1, max(PAGES, steps) + 1):
        tokens = page_tokens * (1 if number % 4 else fourth)
        page_path(folder, number).write_text(page(number, tokens), encoding="utf-8")
    (folder / IMAGE).write_bytes(picture())


def page(number: int, tokens: int) -> str:
    """Return a page's text, the same on every run."""
    chance = random.Random(number)
    lines = max(1, tokens * 3 // 4 // WORDS_PER_LINE)
    return "".join(
        f"{number}.{line} {' '.join(chance.choices(_WORDS, k=WORDS_PER_LINE))}\n"
        for line in range(lines)
    )


def picture(side: int = 64) -> bytes:
    """Return a square PNG of one colour."""
    rows = b"".join(b"\x00" + b"\x30\x60\xc0" * side for _ in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
