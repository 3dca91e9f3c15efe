"""What a summary is written from: the span, what precedes it, and the originals in it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.message import Message
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.summary.fold import ACKNOWLEDGEMENT
from chat_proxy.compaction.summary.marker import add_marker
from chat_proxy.proxy.summaries.draft import Span, returned_fold, shrunk
from tests.unit.chat.shapes import (
    Fields,
    calls,
    conversation,
    histories,
    result,
    says,
    system,
    user,
)
from tests.unit.compaction.examples import at, sized
from tests.unit.proxy.sessions import proxy_with

pytestmark = pytest.mark.anyio

LONG = "many words in a line of output\n" * 60
RUN = [calls("x"), result("x", LONG), calls("y"), result("y", LONG)]
TALK = [system(), user("one"), says("two"), user("three"), *RUN, says("done"), user("now")]


def folded(until: int, summarised: int, **more: Any) -> Checkpoint:
    return Checkpoint(until, Treatments(), 900, until, "text", "## Goal\n- old", summarised, **more)


def contents(messages: list[Message]) -> list[Any]:
    return [message.content for message in messages]


async def test_a_first_summary_begins_behind_the_instructions() -> None:
    async with proxy_with() as proxy:
        draft = await proxy.draft(TALK)

        assert (draft.start, draft.previous) == (1, "")


async def test_an_update_begins_where_the_earlier_summary_ends_not_where_the_fold_does() -> None:
    """What was only noted is shown to the next summariser."""
    async with proxy_with() as proxy:
        draft = await proxy.draft(TALK, folded(6, 3))

        assert (draft.start, draft.previous) == (3, "## Goal\n- old")


async def test_a_summary_that_replaces_the_earlier_one_begins_at_the_beginning() -> None:
    async with proxy_with() as proxy:
        draft = await proxy.draft(TALK, folded(6, 3), has_previous=False)

        assert (draft.start, draft.previous) == (1, "")


async def test_a_fold_that_the_client_sent_back_is_the_earlier_summary() -> None:
    async with proxy_with() as proxy:
        session = await proxy.session(TALK)
        back = user(add_marker("the folded text", 40, session.sign))
        draft = await proxy.draft([system(), back, says(ACKNOWLEDGEMENT), *TALK[3:]])

        assert (draft.start, draft.previous) == (3, "the folded text")


async def test_the_originals_are_what_the_client_sent() -> None:
    """DESIGN 1.12"""
    aged = Checkpoint(9, Treatments(lines=at(5), short=sized(300, 7)), 900)
    async with proxy_with(tools={"max_bytes": 1_000}) as proxy:
        draft = await proxy.draft(TALK, aged)

        assert contents(draft.originals(Span(3, 8))) == [
            message["content"] for message in TALK[3:8]
        ]
        assert draft.conversation.fields[5]["content"] != LONG


async def test_unseen_are_the_originals_of_what_is_shown_cut_or_not_at_all() -> None:
    aged = Checkpoint(9, Treatments(lines=at(5)), 900)
    async with proxy_with() as proxy:
        only_aged = await proxy.draft(TALK, aged)
        with_fold = await proxy.draft(TALK, folded(6, 3))
        whole = await proxy.draft(TALK)

        assert contents(only_aged.unseen(Span(1, 8))) == [LONG]
        assert [it.role for it in with_fold.unseen(Span(3, 8))] == ["assistant", "tool"]
        assert whole.unseen(Span(1, 8)) == []


async def test_a_carried_request_is_seen() -> None:
    async with proxy_with() as proxy:
        draft = await proxy.draft(TALK, folded(6, 1))

        assert user("three") not in [it.fields for it in draft.unseen(Span(1, 8))]


async def test_the_tokens_of_a_span_are_those_of_the_originals() -> None:
    aged = Checkpoint(9, Treatments(lines=at(5, 7)), 900)
    async with proxy_with() as proxy:
        draft = await proxy.draft(TALK, aged)
        whole = await proxy.draft(TALK)

        assert draft.span_tokens(Span(3, 8)) == whole.span_tokens(Span(3, 8)) > 700


async def test_the_boundary_counts_the_clients_messages() -> None:
    async with proxy_with() as proxy:
        draft = await proxy.draft(TALK)

        assert draft.boundary(Span(1, 3)) == 3
        assert draft.boundary(Span(1, len(TALK))) == len(TALK)


async def test_what_was_seen_is_the_prompt_up_to_the_end_of_the_span() -> None:
    async with proxy_with() as proxy:
        draft = await proxy.draft(TALK, folded(3, 3))

        seen = draft.seen(Span(3, 6))

        assert list(seen.origins) == [0, None, None, 3, 4, 5]
        assert seen.fields[1]["content"] == "text"


def sign(content: bytes) -> str:
    return f"{len(content):032x}"


BACK = user(add_marker("the folded text", 40, sign))


@pytest.mark.parametrize(
    ("messages", "behind"),
    [
        ([BACK, says(ACKNOWLEDGEMENT), user()], 2),
        ([BACK, says("Another answer"), user()], 1),
        ([BACK], 1),
        ([system(), BACK, says(ACKNOWLEDGEMENT), user()], 3),
    ],
)
def test_a_fold_that_came_back_ends_behind_its_acknowledgement(
    messages: list[Fields], behind: int
) -> None:
    assert returned_fold(conversation(*messages), sign) == ("the folded text", behind)


@pytest.mark.parametrize(
    "messages", [[user(), says(), BACK], [user("the folded text")], [], [says(BACK["content"])]]
)
def test_a_fold_that_is_only_quoted_is_none(messages: list[Fields]) -> None:
    assert returned_fold(conversation(*messages), sign) is None


def test_a_span_too_large_for_the_summariser_loses_its_newest_groups() -> None:
    """BUGS 48"""
    talk = conversation(user(), says(), user(), says(), user(), says(), user())

    assert shrunk(Span(0, 6), talk, [10] * 7, 60) == Span(0, 6)
    assert shrunk(Span(0, 6), talk, [10] * 7, 59) == Span(0, 4)
    assert shrunk(Span(2, 6), talk, [10] * 7, 39) == Span(2, 4)


def test_a_shrunk_span_never_splits_a_group() -> None:
    """BUGS 2"""
    talk = conversation(user(), says(), user(), calls("a", "b"), result("a"), result("b"), says())

    assert shrunk(Span(0, 6), talk, [10] * 7, 55) == Span(0, 2)


def test_a_shrunk_span_does_not_end_inside_the_opening_of_a_turn() -> None:
    """A fold keeps the user messages of a turn that it divides: there would be nothing to fold."""
    assert shrunk(Span(0, 3), conversation(user(), says(), user()), [10] * 3, 15) is None


def test_a_span_that_cannot_shrink_enough_is_no_span() -> None:
    talk = conversation(user(), *RUN)

    assert shrunk(Span(0, 5), talk, [10] * 5, 29) is None
    assert shrunk(Span(0, 5), talk, [10] * 5, 0) is None


@given(histories, st.data())
def test_a_shrunk_span_fits_and_begins_where_it_began(
    history: list[Fields], data: st.DataObject
) -> None:
    talk = conversation(*history)
    sizes = data.draw(st.lists(st.integers(0, 60), min_size=len(talk), max_size=len(talk)))
    room = data.draw(st.integers(0, 200))
    whole = Span(talk.instructions, talk.seams[-1])

    found = shrunk(whole, talk, sizes, room)

    if found:
        assert found.start == whole.start < found.end <= whole.end
        assert sum(sizes[found.start : found.end]) <= room
        assert found.end in talk.seams
