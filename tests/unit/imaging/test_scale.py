"""One image scaled down: format, orientation, colours, limits, and the same bytes each time."""

import base64
import io
import struct
import zlib
from typing import Any

import pytest

from chat_proxy.imaging import scale
from chat_proxy.imaging.scale import ScaledImage, scaled_image

Image: Any = pytest.importorskip("PIL.Image")


def encoded(image: Any, form: str, **options: Any) -> str:
    written = io.BytesIO()
    image.save(written, form, **options)
    return base64.b64encode(written.getvalue()).decode()


def opened(scaled: ScaledImage | None) -> Any:
    assert scaled is not None
    return Image.open(io.BytesIO(base64.b64decode(scaled.base64)))


def photo(width: int, height: int) -> Any:
    """A picture with many colours."""
    across = Image.linear_gradient("L").resize((width, height))
    return Image.merge("RGB", (across, across.rotate(90).resize((width, height)), across))


def chart(width: int, height: int) -> Any:
    """A picture with few colours."""
    image = Image.new("RGB", (width, height), "white")
    image.paste("navy", (0, 0, width // 2, height))
    return image


@pytest.mark.parametrize(
    ("image", "form", "mime"),
    [
        (photo(800, 600), "JPEG", "image/jpeg"),
        (photo(800, 600), "PNG", "image/jpeg"),
        (photo(800, 600), "WEBP", "image/jpeg"),
        (chart(800, 600), "PNG", "image/png"),
        (chart(800, 600), "GIF", "image/png"),
        (chart(800, 600), "BMP", "image/png"),
        (chart(800, 600).convert("1"), "PNG", "image/png"),
        (photo(800, 600).convert("CMYK"), "JPEG", "image/jpeg"),
        (photo(800, 600).convert("L"), "JPEG", "image/jpeg"),
    ],
)
def test_the_format_stays_and_photos_become_jpeg(image: Any, form: str, mime: str) -> None:
    scaled = scaled_image(encoded(image, form), 400)

    assert scaled is not None
    assert scaled.mime == mime
    assert opened(scaled).size == (400, 300)
    assert scaled.url.startswith(f"data:{mime};base64,")


def test_transparency_stays() -> None:
    image = photo(800, 600)
    image.putalpha(Image.linear_gradient("L").resize((800, 600)))

    assert opened(scaled_image(encoded(image, "PNG"), 400)).mode == "RGBA"
    assert opened(scaled_image(encoded(image, "WEBP"), 400)).mode == "RGBA"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_picture_stands_as_exif_says(orientation: int) -> None:
    """A navy left half, stored turned: upright again, whatever the server makes of EXIF."""
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    given = encoded(chart(800, 600), "JPEG", exif=exif)
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(base64.b64decode(given))))

    after = opened(scaled_image(given, 400))

    assert after.getexif().get(0x0112, 1) == 1
    assert after.size == (shown.width // 2, shown.height // 2)
    for x, y in ((0.2, 0.2), (0.8, 0.2), (0.2, 0.8), (0.8, 0.8)):
        wanted = shown.getpixel((int(x * shown.width), int(y * shown.height)))
        found = after.getpixel((int(x * after.width), int(y * after.height)))
        assert isinstance(wanted, tuple)
        assert isinstance(found, tuple)
        assert all(abs(a - b) < 40 for a, b in zip(wanted, found, strict=True))


def test_the_same_image_gives_the_same_bytes() -> None:
    """BUGS 44."""
    given = encoded(photo(900, 700), "JPEG")

    assert scaled_image(given, 500) == scaled_image(given, 500)


def test_nothing_is_scaled_up() -> None:
    given = encoded(photo(300, 200), "JPEG")

    assert scaled_image(given, 300) is None
    assert scaled_image(given, 900) is None


def test_a_large_jpeg_is_never_decoded_whole() -> None:
    given = encoded(photo(4_000, 3_000), "JPEG")

    assert opened(scaled_image(given, 3_500)).size == (2_000, 1_500)


def bomb(width: int, height: int) -> str:
    """A PNG of a few hundred bytes with so many pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + crc

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(bytes(100_000))) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + header + body).decode()


@pytest.mark.parametrize("side", [60_000, 20_000, 6_000])
def test_a_decompression_bomb_is_not_decoded(side: int) -> None:
    assert scaled_image(bomb(side, side), 500) is None


def test_a_gif_whose_frame_is_larger_than_its_screen_is_not_decoded() -> None:
    """A screen of 1x1 with a frame of 60,000x60,000."""
    screen = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0, 0, 0)
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 60_000, 60_000, 0) + b"\x02\x02\x4c\x01\x00;"

    assert scaled_image(base64.b64encode(screen + frame).decode(), 500) is None


@pytest.mark.parametrize(
    "given", ["", "!", "AAAA", "iVBORw0KGgo=", encoded(photo(800, 600), "JPEG")[:400]]
)
def test_what_is_no_image_is_refused(given: str) -> None:
    assert scaled_image(given, 100) is None


def test_formats_that_need_other_programs_are_refused() -> None:
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 900 900\n%%EndComments\nshowpage\n"

    assert scaled_image(base64.b64encode(eps).decode(), 100) is None


def test_too_many_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = encoded(photo(800, 600), "JPEG")
    monkeypatch.setattr(scale, "MAX_BYTES", 100)

    assert scaled_image(given, 100) is None
