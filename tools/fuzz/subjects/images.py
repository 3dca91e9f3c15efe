"""Image headers: any bytes have a size or none, and every family's price of it is sane."""

from base64 import b64encode

from chat_proxy.tokens.images.formulas import FORMULAS
from chat_proxy.tokens.images.size import Size, image_size

MOST_TOKENS = 200_000_000_000
"""What the families that set no limit ask for the largest picture that a header can claim."""
DETAILS = ("", "low", "high", "original", "auto")


def measure_any_image(data: bytes) -> None:
    """Measure the bytes as a picture in each of its wrappings, and as a text that is none."""
    bare = b64encode(data).decode()
    size = image_size(bare)
    assert image_size(f"data:image/png;base64,{bare}") == size
    if size is not None:
        _price(size)
    told = image_size(data.decode("latin-1"))
    assert told is None or min(told) > 0


def _price(size: Size) -> None:
    assert min(size) > 0
    for family, formula in FORMULAS.items():
        for detail in DETAILS:
            tokens = formula(size, detail)
            assert type(tokens) is int, family
            assert 0 < tokens < MOST_TOKENS, (family, detail, size)
