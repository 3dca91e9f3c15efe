"""Where a conversation may be folded, and which user messages a fold carries over."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import (
    answered_until,
    before_opening,
    carried,
    end_by_turns,
    start_of_last,
)
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

STEPS = [calls("x"), result("x"), calls("y"), result("y")]
THREE_TURNS = [user(), says(), user(), says(), user(), says()]


@pytest.mark.parametrize(
    ("messages", "end"),
    [
        ([], 0),
        ([system()], 1),
        ([system(), user()], 1),
        ([user(), says(), user()], 2),
        ([user(), says(), user(), says()], 4),
        ([user(), *STEPS], 3),
        ([user(), *STEPS, user("stop")], 3),
        ([user(), says(), calls("a")], 2),
    ],
)
def test_what_has_no_answer_yet_is_not_folded(messages: list[Fields], end: int) -> None:
    """BUGS 38: a call stays with its results."""
    assert answered_until(conversation(*messages)) == end


def test_an_end_inside_a_turn_carries_its_user_messages() -> None:
    """BUGS 24"""
    talk = conversation(system(), user(), says(), user(), user(), *STEPS)

    assert [carried(talk, end) for end in (1, 3, 5, 7)] == [(), (), (3, 4), (3, 4)]
    assert carried(talk, len(talk)) == ()
    assert carried(talk, 0) == ()


def test_a_user_message_between_call_and_result_is_carried_too() -> None:
    talk = conversation(
        user(), calls("a", "b"), result("a"), user("hurry"), result("b"), says(), user()
    )

    assert carried(talk, 5) == (0, 3)


@given(histories, histories, st.data())
def test_appended_messages_never_change_what_is_carried(
    history: list[dict[str, Any]], more: list[dict[str, Any]], data: st.DataObject
) -> None:
    """BUGS 44"""
    short = conversation(*history)
    grown = conversation(*history, *more)
    end = data.draw(st.sampled_from(short.seams))

    if end < len(short) and end in grown.seams:
        assert carried(grown, end) == carried(short, end)


@given(histories, st.data())
def test_what_is_carried_is_of_the_turn_around_the_end(
    history: list[dict[str, Any]], data: st.DataObject
) -> None:
    talk = conversation(*history)
    end = data.draw(st.integers(0, len(talk) + 1))

    around = [turn for turn in talk.turns if turn.start < end < turn.end]
    expected = tuple(index for turn in around for index in turn.users if index < end)
    assert carried(talk, end) == expected


def test_an_end_among_the_opening_messages_of_a_turn_moves_before_them() -> None:
    talk = conversation(user(), says(), user(), user(), *STEPS, user("stop"))

    assert [before_opening(talk, end) for end in range(10)] == [0, 0, 2, 2, 2, 5, 6, 7, 8, 8]


@pytest.mark.parametrize(("turns", "start"), [(0, 6), (1, 4), (2, 2), (3, 0), (9, 0), (-1, 6)])
def test_the_last_turns_begin_where_they_begin(turns: int, start: int) -> None:
    assert start_of_last(conversation(*THREE_TURNS), turns) == start


@pytest.mark.parametrize(("keep", "end"), [(0, 6), (1, 4), (2, 2), (3, 0), (9, 0)])
def test_a_manual_fold_keeps_the_last_turns_whatever_their_size(keep: int, end: int) -> None:
    assert end_by_turns(conversation(*THREE_TURNS), keep) == end


def test_a_manual_fold_never_takes_the_question_that_waits() -> None:
    """BUGS 38"""
    assert end_by_turns(conversation(user(), says(), user()), 0) == 2
    assert end_by_turns(conversation(user()), 0) == 0
    assert end_by_turns(conversation(user(), says(), user(), says(), calls("a")), 0) == 4


@given(histories, st.integers(0, 4))
def test_a_manual_fold_ends_at_a_seam(history: list[dict[str, Any]], keep: int) -> None:
    """BUGS 1"""
    talk = conversation(*history)

    assert end_by_turns(talk, keep) in talk.seams
