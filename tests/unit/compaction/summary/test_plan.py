import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.summary.plan import (
    Plan,
    carried,
    plan,
    plan_by_turns,
    shrunk,
    tail_tokens,
)
from tests.unit.chat.shapes import (
    calls,
    conversation,
    developer,
    histories,
    result,
    says,
    system,
    user,
)

# 40 tokens of tail, 100 of trigger: numbers small enough for every edge.
TINY = Budget(window=150, reserve=25, usable=125, trigger=100, prepare=80)


def _budget(usable: int) -> Budget:
    return Budget(usable + 100, 100, usable, usable * 8 // 10, usable * 65 // 100)


def _planned(
    messages: list[dict[str, Any]],
    sizes: list[int],
    *,
    start: int | None = None,
    fixed: int = 0,
    keep_turns: int | None = None,
    growth: int = 0,
) -> tuple[int, int] | None:
    talk = conversation(*messages)
    begin = talk.instructions if start is None else start
    if keep_turns is not None:
        found = plan_by_turns(talk, keep_turns, start=begin)
    else:
        tail = tail_tokens(TINY, growth=growth)
        found = plan(talk, sizes, TINY, start=begin, fixed=fixed, tail=tail)
    return (found.start, found.end) if found else None


def _agent_run(steps: int) -> list[dict[str, Any]]:
    """One question and many steps of two messages each."""
    run = [user("fix it")]
    for index in range(steps):
        run += [calls(f"c{index}"), result(f"c{index}")]
    return run


@pytest.mark.parametrize(
    ("usable", "tokens"),
    [(4_000, 1_280), (8_000, 2_000), (40_000, 10_000), (1_000_000, 15_000), (0, 0)],
)
def test_the_tail_is_a_quarter_within_bounds_and_never_much_of_the_trigger(
    usable: int, tokens: int
) -> None:
    assert tail_tokens(_budget(usable)) == tokens


def test_the_tail_leaves_half_of_the_trigger_with_all_that_stands_before_it() -> None:
    budget = _budget(40_000)

    assert tail_tokens(budget, before=6_000) == 10_000
    assert tail_tokens(budget, before=9_000) == 16_000 - 9_000
    assert tail_tokens(budget, before=30_000) == 2_000


def test_the_tail_is_smaller_by_what_comes_before_it_is_needed() -> None:
    assert tail_tokens(_budget(40_000), growth=1_000) == 9_000
    assert tail_tokens(_budget(40_000), growth=11_000) == 0


def test_the_newest_whole_turns_within_the_budget_stay() -> None:
    talk = [user(), says(), user(), says(), user(), says(), user()]

    assert _planned(talk, [10] * 7) == (0, 4)
    assert _planned(talk, [10, 10, 5, 5, 10, 10, 10]) == (0, 2)
    assert _planned(talk, [10, 10, 5, 6, 10, 10, 10]) == (0, 4)


def test_a_tail_that_will_grow_begins_so_much_later() -> None:
    talk = [user(), says(), user(), says(), user(), says(), user()]

    assert _planned(talk, [10, 10, 5, 5, 10, 10, 10], growth=9) == (0, 4)
    assert _planned(talk, [10, 10, 5, 5, 10, 10, 10], growth=1_000) == (0, 6)


def test_the_current_turn_stays_even_if_it_is_larger_than_the_tail() -> None:
    talk = [system(), user(), says(), *_agent_run(3)]

    assert _planned(talk, [9, 5, 5, *[14] * 7], fixed=1) == (1, 3)


def test_the_current_turn_is_cut_only_when_it_alone_reaches_the_trigger() -> None:
    """BUGS 24"""
    talk = [user(), says(), *_agent_run(4)]
    sizes = [5, 5, *[10] * 9]

    assert _planned(talk, sizes, fixed=9) == (0, 2)
    assert _planned(talk, sizes, fixed=10) == (0, 7)


def test_a_turn_cut_inside_keeps_the_newest_groups_within_the_tail() -> None:
    assert _planned(_agent_run(5), [10] * 11) == (0, 7)
    assert _planned(_agent_run(5), [10, *[20] * 10]) == (0, 9)


def test_the_last_group_stays_whatever_its_size() -> None:
    """BUGS 38"""
    talk = [*_agent_run(2), calls("x", "y"), result("x"), result("y")]

    assert _planned(talk, [1, 1, 1, 1, 1, 1, 500, 500]) == (0, 5)


def test_a_turn_of_one_group_is_not_cut_but_what_lies_before_it_is_folded() -> None:
    assert _planned(_agent_run(1), [10, 10, 500]) is None
    assert _planned([user(), says(), *_agent_run(1)], [10, 10, 10, 10, 500]) == (0, 2)


def test_several_user_messages_alone_are_nothing_to_fold() -> None:
    assert _planned([user(), user(), user()], [60, 60, 60]) is None
    assert _planned([user(), user(), *_agent_run(1)[1:]], [60, 60, 1, 60]) is None


def test_large_instructions_do_not_cut_a_small_current_turn() -> None:
    talk = [user(), says(), user(), says(), *_agent_run(1)]

    assert _planned(talk, [10] * 7, fixed=500) == (0, 4)
    assert _planned(talk, [10, 20, 5, 5, 10, 10, 10], fixed=500) == (0, 2)


def test_a_conversation_that_fits_into_the_tail_is_not_folded() -> None:
    assert _planned([user(), says(), user()], [10] * 3) is None
    assert _planned([system()], [500]) is None
    assert _planned([], []) is None


def test_results_that_the_model_has_not_answered_stay_when_the_user_breaks_in() -> None:
    talk = [*_agent_run(3), user("stop")]

    assert _planned(talk, [10, 20, 20, 20, 20, 20, 20, 39]) == (0, 5)


def test_a_call_without_results_yet_is_not_folded() -> None:
    assert _planned([user(), says(), user(), says(), calls("a")], [10] * 5, keep_turns=0) == (0, 4)


def test_a_window_without_room_is_never_planned_for() -> None:
    """BUGS 8"""
    talk = conversation(*_agent_run(9))

    assert plan(talk, [10] * 19, _budget(0), start=0, fixed=0, tail=0) is None


def test_a_span_begins_where_the_earlier_fold_ended() -> None:
    talk = [user(), says(), user(), says(), user(), says(), user()]

    assert _planned(talk, [20] * 7, start=2) == (2, 6)
    assert _planned(talk, [20] * 7, start=6) is None
    assert _planned(talk, [20] * 7, start=7) is None


def test_steps_folded_before_do_not_count_again_but_the_carried_question_does() -> None:
    talk = _agent_run(9)
    sizes = [30, *[10] * 18]

    assert _planned(talk, sizes, start=13, fixed=9) is None
    assert _planned(talk, sizes, start=13, fixed=10) == (13, 15)


@pytest.mark.parametrize(("keep", "end"), [(0, 6), (1, 4), (2, 2), (3, None), (9, None)])
def test_a_manual_fold_keeps_the_last_turns_whatever_their_size(keep: int, end: int | None) -> None:
    talk = [user(), says(), user(), says(), user(), says()]

    assert _planned(talk, [1] * 6, keep_turns=keep) == (None if end is None else (0, end))


def test_a_manual_fold_never_takes_the_question_that_waits() -> None:
    """BUGS 38"""
    assert _planned([user(), says(), user()], [1] * 3, keep_turns=0) == (0, 2)
    assert _planned([user()], [1], keep_turns=0) is None


def test_a_span_too_large_for_the_summariser_loses_its_newest_groups() -> None:
    """BUGS 48"""
    talk = conversation(user(), says(), user(), says(), user(), says(), user())

    assert shrunk(Plan(0, 6), talk, [10] * 7, 60) == Plan(0, 6)
    assert shrunk(Plan(0, 6), talk, [10] * 7, 59) == Plan(0, 4)
    assert shrunk(Plan(2, 6), talk, [10] * 7, 39) == Plan(2, 4)


def test_a_shrunk_span_never_splits_a_group() -> None:
    """BUGS 2"""
    talk = conversation(user(), says(), user(), calls("a", "b"), result("a"), result("b"), says())

    assert shrunk(Plan(0, 6), talk, [10] * 7, 55) == Plan(0, 2)


def test_a_span_that_cannot_shrink_enough_is_no_span() -> None:
    talk = conversation(*_agent_run(3))

    assert shrunk(Plan(0, 5), talk, [10] * 7, 29) is None
    assert shrunk(Plan(0, 5), talk, [10] * 7, 0) is None


def test_a_boundary_inside_a_turn_carries_its_user_messages() -> None:
    """BUGS 24"""
    talk = conversation(system(), user(), says(), user(), user(), *_agent_run(2)[1:])

    assert [carried(talk, end) for end in (1, 3, 5, 7)] == [(), (), (3, 4), (3, 4)]
    assert carried(talk, len(talk)) == ()


def test_a_user_message_between_call_and_result_is_carried_too() -> None:
    talk = conversation(
        user(), calls("a", "b"), result("a"), user("hurry"), result("b"), says(), user()
    )

    assert carried(talk, 5) == (0, 3)


def test_instructions_are_never_part_of_a_span() -> None:
    """BUGS 23, BUGS 46"""
    talk = [system(), developer(), user(), says(), user()]

    assert _planned(talk, [90] * 5) == (2, 4)


@given(histories, st.data())
def test_a_span_ends_at_a_seam_and_leaves_a_tail(
    history: list[dict[str, Any]], data: st.DataObject
) -> None:
    """BUGS 1"""
    untouched = copy.deepcopy(history)
    talk = conversation(*history)
    sizes = data.draw(st.lists(st.integers(0, 60), min_size=len(talk), max_size=len(talk)))
    start = data.draw(st.sampled_from(talk.seams))
    fixed = data.draw(st.integers(0, 120))

    found = plan(talk, sizes, TINY, start=start, fixed=fixed, tail=tail_tokens(TINY))

    assert history == untouched
    if found:
        assert found.start == start < found.end < len(talk)
        assert found.end in talk.seams
        assert set(range(start, found.end)) - set(carried(talk, found.end))


@given(histories, st.data())
def test_a_shrunk_span_fits_and_begins_where_it_began(
    history: list[dict[str, Any]], data: st.DataObject
) -> None:
    talk = conversation(*history)
    sizes = data.draw(st.lists(st.integers(0, 60), min_size=len(talk), max_size=len(talk)))
    room = data.draw(st.integers(0, 200))
    whole = Plan(talk.instructions, talk.seams[-1])

    found = shrunk(whole, talk, sizes, room)

    if found:
        assert found.start == whole.start < found.end <= whole.end
        assert sum(sizes[found.start : found.end]) <= room
        assert found.end in talk.seams


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


def test_a_long_run_is_planned_in_linear_time() -> None:
    talk = Conversation.of(_agent_run(10_000))
    assert talk is not None

    found = plan(talk, [10] * 20_001, _budget(100_000), start=0, fixed=0, tail=15_000)

    assert found == Plan(0, 20_001 - 1_500)
