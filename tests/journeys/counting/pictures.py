"""Pictures that are nothing but their header, and the parts that carry them."""

import base64
import struct
from typing import Any


def png(width: int, height: int, extra_bytes: int = 0) -> str:
    """A data URL of a PNG of this extent, followed by so many bytes of nothing."""
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(
        ">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 2, 0, 0, 0
    )
    return "data:image/png;base64," + base64.b64encode(head + bytes(extra_bytes)).decode()


def image(url: str, **fields: Any) -> dict[str, Any]:
    """A part with an image."""
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def text(words: str) -> dict[str, Any]:
    """A part with a text."""
    return {"type": "text", "text": words}
