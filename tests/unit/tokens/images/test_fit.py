"""The largest smaller size of an image within so many tokens, by the family's tiles or patches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.tokens.images.fit import LEAST_SIDE, fit, scaled_size, side_of_pixels
from chat_proxy.tokens.images.formulas import FORMULAS
from chat_proxy.tokens.images.size import Size
from chat_proxy.tokens.images.tokens import tokens_of_size

PHOTO = Size(4_000, 3_000)
SIZES = st.builds(Size, st.integers(1, 9_000), st.integers(1, 9_000))


@pytest.mark.parametrize(
    ("family", "room", "side"),
    [("qwen2-vl", 1_000, 1_022), ("qwen3-vl", 1_000, 1_168), ("gpt-4o", 500, 683)],
)
def test_the_size_ends_at_the_border_of_a_patch_or_tile(family: str, room: int, side: int) -> None:
    found = fit(PHOTO, None, family, room)

    assert found is not None
    assert found.side == side
    assert found.tokens <= room
    above = tokens_of_size(scaled_size(PHOTO, side + 1), None, family)
    assert above is not None
    assert above > room


@given(SIZES, st.sampled_from(sorted(FORMULAS)), st.integers(1, 5_000))
def test_a_fit_is_smaller_and_within_the_room(size: Size, family: str, room: int) -> None:
    found = fit(size, None, family, room)

    if found is not None:
        smaller = scaled_size(size, found.side)
        assert LEAST_SIDE <= found.side < max(size)
        assert found.tokens <= room
        assert found.tokens == tokens_of_size(smaller, None, family)
        assert smaller.width <= size.width
        assert smaller.height <= size.height


@pytest.mark.parametrize("family", [None, "", "unknown", "gemma-3", "llava", "gemini-3"])
def test_families_that_are_unknown_or_count_all_alike_have_no_smaller_form(
    family: str | None,
) -> None:
    assert fit(PHOTO, None, family, 200) is None


def test_low_detail_has_no_smaller_form() -> None:
    assert fit(PHOTO, "low", "gpt-4o", 50) is None


def test_an_image_that_would_show_too_little_has_none() -> None:
    assert fit(PHOTO, None, "qwen2-vl", 10) is None
    assert fit(Size(200, 200), None, "qwen2-vl", 10) is None


def test_proportions_stay_and_nothing_grows() -> None:
    assert scaled_size(PHOTO, 1_000) == (1_000, 750)
    assert scaled_size(Size(10, 10_000), 100) == (1, 100)
    assert scaled_size(PHOTO, 9_000) == PHOTO


@given(SIZES, st.integers(1, 10_000_000))
def test_a_side_for_pixels_has_no_more_pixels(size: Size, pixels: int) -> None:
    smaller = scaled_size(size, side_of_pixels(size, pixels))

    assert smaller.width * smaller.height <= max(pixels, *smaller)
