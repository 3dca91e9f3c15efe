"""The largest size of an image that has at most so many tokens, by the rule of its model family."""

from math import sqrt
from typing import Final, NamedTuple

from chat_proxy.tokens.images.size import Size
from chat_proxy.tokens.images.tokens import tokens_of_size

LEAST_SIDE: Final = 224
"""An image whose longer side is below this shows too little to be worth sending."""


class Fit(NamedTuple):
    """A smaller form of an image."""

    side: int
    """Its longer side in pixels."""
    tokens: int


def fit(size: Size, detail: str | None, family: str | None, max_tokens: int) -> Fit | None:
    """Return the largest smaller size with at most `max_tokens`, None if there is none.

    Tokens change at the borders of the family's tiles or patches only, and the largest size below
    such a border is found. Families that count every image alike have no smaller form.
    """
    whole = tokens_of_size(size, detail, family)
    low, high = LEAST_SIDE, max(size) - 1
    if whole is None or low > high:
        return None
    best: Fit | None = None
    while low <= high:
        side = (low + high) // 2
        tokens = tokens_of_size(scaled_size(size, side), detail, family)
        if tokens is not None and tokens <= max_tokens and tokens < whole:
            best, low = Fit(side, tokens), side + 1
        else:
            high = side - 1
    return best


def scaled_size(size: Size, side: int) -> Size:
    """Return the size with this longer side and the same proportions; never a larger one."""
    longest = max(size)
    if side >= longest:
        return size
    return Size(max(1, size.width * side // longest), max(1, size.height * side // longest))


def side_of_pixels(size: Size, max_pixels: int) -> int:
    """Return the longer side of an image with at most so many pixels."""
    pixels = size.width * size.height
    return max(1, int(max(size) * min(1.0, sqrt(max_pixels / pixels))))
