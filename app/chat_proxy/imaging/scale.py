"""Scale one image down with Pillow: the same bytes for the same input, never larger."""

import importlib
import importlib.util
import struct
from binascii import a2b_base64, b2a_base64
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, NamedTuple

from chat_proxy.tokens.images.fit import scaled_size
from chat_proxy.tokens.images.size import Size

MAX_BYTES: Final = 32 * 1024 * 1024
MAX_JPEG_PIXELS: Final = 64_000_000
"""A JPEG is decoded at an eighth, a quarter or half of its size, so it may be larger."""
MAX_PIXELS: Final = 32_000_000
"""What is decoded whole takes four bytes a pixel."""
CHEAP_PIXELS: Final = 8_000_000
"""A larger JPEG is never decoded whole."""
MAX_ICC_BYTES: Final = 8 * 1024
QUALITY: Final = 85
FORMATS: Final = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
PHOTO_COLOURS: Final = 4_096
"""A picture with more colours is a photo, which JPEG stores in a fraction of the bytes."""

_MIMES: Final = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
_DAMAGE: Final = (
    OSError,
    ValueError,
    SyntaxError,
    ArithmeticError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    MemoryError,
    struct.error,
)
"""What Pillow's decoders raise for damaged images."""


class ScaledImage(NamedTuple):
    """A scaled image in base64, with its type."""

    mime: str
    base64: str

    @property
    def url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.mime};base64,{self.base64}"


@lru_cache(maxsize=1)
def is_available() -> bool:
    """Return whether Pillow is installed."""
    return importlib.util.find_spec("PIL") is not None


def scaled_image(base64: str, side: int) -> ScaledImage | None:
    """Return the image with this longer side; None if it cannot or must not be decoded.

    This takes up to 150 ms: call it in a thread.
    """
    if len(base64) > MAX_BYTES * 4 // 3 or not is_available():
        return None
    pillow: Any = importlib.import_module("PIL.Image")
    try:
        return _scaled(pillow, a2b_base64(base64), side)
    except (*_DAMAGE, pillow.DecompressionBombError, pillow.DecompressionBombWarning):
        return None


def _scaled(pillow: Any, content: bytes, side: int) -> ScaledImage | None:
    with pillow.open(BytesIO(content), formats=FORMATS) as image:
        is_jpeg = image.format == "JPEG"
        size = Size(*image.size)
        if size.width * size.height > (MAX_JPEG_PIXELS if is_jpeg else MAX_PIXELS):
            return None
        target = scaled_size(size, side)
        if target == size:
            return None
        profile = image.info.get("icc_profile")
        if is_jpeg:
            target = _cheap_size(size, target)
            image.draft(None, target)
        smaller = _plain(image).resize(target, pillow.Resampling.LANCZOS, reducing_gap=2.0)
        orientation = image.getexif().get(0x0112, 1)
        upright = _upright(pillow, smaller, orientation)
        kept = image.format if image.format in _MIMES else "PNG"
        return _encoded(upright, kept, profile)


def _cheap_size(size: Size, target: Size) -> Size:
    """Return the target, or half of a large JPEG, which is decoded in a third of the time."""
    half = Size((size.width + 1) // 2, (size.height + 1) // 2)
    is_large = size.width * size.height > CHEAP_PIXELS
    return half if is_large and max(target) > max(half) else target


def _plain(image: Any) -> Any:
    """Return the image in a mode that all formats can store."""
    has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    if has_alpha:
        return image.convert("RGBA")
    return image if image.mode in ("RGB", "L") else image.convert("RGB")


def _upright(pillow: Any, image: Any, orientation: int) -> Any:
    """Turn the pixels as EXIF says: the scaled image has no EXIF any more."""
    turn = pillow.Transpose
    turned = {
        2: turn.FLIP_LEFT_RIGHT,
        3: turn.ROTATE_180,
        4: turn.FLIP_TOP_BOTTOM,
        5: turn.TRANSPOSE,
        6: turn.ROTATE_270,
        7: turn.TRANSVERSE,
        8: turn.ROTATE_90,
    }.get(orientation)
    return image if turned is None else image.transpose(turned)


def _encoded(image: Any, kept: str, profile: Any) -> ScaledImage:
    """Write the image in its own format; a photo without transparency as JPEG."""
    is_photo = image.mode != "RGBA" and image.getcolors(PHOTO_COLOURS) is None
    form = "JPEG" if is_photo else kept
    options: dict[str, Any] = {"optimize": True} if form == "PNG" else {"quality": QUALITY}
    if isinstance(profile, bytes) and len(profile) <= MAX_ICC_BYTES and image.mode == "RGB":
        options["icc_profile"] = profile
    written = BytesIO()
    image.save(written, form, **options)
    return ScaledImage(_MIMES[form], b2a_base64(written.getvalue(), newline=False).decode())
