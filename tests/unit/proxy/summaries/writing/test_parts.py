"""A span that is too long for one query: its newest parts, each within its share of a window."""

from itertools import pairwise

import pytest

from chat_proxy.proxy.summaries.draft import Span
from chat_proxy.proxy.summaries.writing.parts import MAX_PARTS, PART_SHARE, parts_of
from tests.unit.chat.shapes import Fields, calls, result, says, system, user
from tests.unit.proxy.sessions import proxy_with

pytestmark = pytest.mark.anyio

LINE = "The quick brown fox jumps over the lazy dog in the morning. " * 8


def talk(turns: int) -> list[Fields]:
    messages = [message for _ in range(turns) for message in (user(LINE), says(LINE))]
    return [system(), *messages, user("now")]


async def test_a_span_that_fits_is_one_part() -> None:
    async with proxy_with() as proxy:
        draft = await proxy.draft(talk(5))

        assert parts_of(draft, Span(1, 11), 8_000) == [Span(1, 11)]


async def test_a_longer_span_is_divided_at_seams_without_gaps() -> None:
    async with proxy_with() as proxy:
        draft = await proxy.draft(talk(20))
        window = 2_000

        parts = parts_of(draft, Span(1, 41), window)

        assert len(parts) > 2
        assert (parts[0].start, parts[-1].end) == (1, 41)
        assert all(one.end == two.start for one, two in pairwise(parts))
        assert all(draft.span_tokens(part) <= PART_SHARE * window for part in parts)


@pytest.mark.parametrize("turns", range(15, 25))
async def test_no_part_is_a_short_rest(turns: int) -> None:
    """A summary of a short rest would be no shorter than it, and the whole would fail."""
    async with proxy_with() as proxy:
        draft = await proxy.draft(talk(turns))

        sizes = [draft.span_tokens(it) for it in parts_of(draft, Span(1, 2 * turns + 1), 2_000)]

        assert min(sizes) > max(sizes) / 2


async def test_of_a_span_of_many_windows_the_newest_parts_are_taken() -> None:
    async with proxy_with() as proxy:
        draft = await proxy.draft(talk(60))

        parts = parts_of(draft, Span(1, 121), 600)

        assert len(parts) == MAX_PARTS
        assert parts[-1].end == 121
        assert parts[0].start > 1


async def test_a_group_is_not_divided_however_long_it_is() -> None:
    """BUGS 2"""
    step = [calls("x"), result("x", LINE * 30)]
    async with proxy_with() as proxy:
        draft = await proxy.draft([user("go"), *step, says("ok"), user("now")])

        parts = parts_of(draft, Span(0, 4), 600)

        assert Span(1, 3) in parts
        assert parts[-1].end == 4
