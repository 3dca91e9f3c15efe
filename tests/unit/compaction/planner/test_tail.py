"""Where a fold ends: at the first seam that reaches the target, or where the operator says."""

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.planner.tail import (
    FOLD_SHARE,
    LEAST_FOLD_TOKENS,
    fold_end,
    later_ends,
    wanted_room,
)
from tests.unit.chat.shapes import calls, conversation, histories, says, system, user
from tests.unit.compaction.planner.views import BUDGET, read_step, run, talk, view_of, words


def test_a_folded_text_wants_a_share_of_what_it_replaces() -> None:
    view = view_of(*talk(10_000), *run(10_000, 100), says("done"), user("now"))

    talked = wanted_room(view, 2, 90_000)
    with_results = wanted_room(view, 5, 90_000)

    assert talked == int(20_008 * 0.45)
    assert 800 < with_results - talked < 900


def test_it_wants_enough_for_a_few_notes_at_least() -> None:
    view = view_of(*talk(100, 100), user("now"))

    assert wanted_room(view, 2, 90_000) == LEAST_FOLD_TOKENS


def test_it_takes_at_most_its_share_beside_the_fixed_part() -> None:
    view = view_of(*talk(10_000), user("now"), beside=4_000)

    assert wanted_room(view, 2, 6_000) == int(2_000 * FOLD_SHARE)
    assert wanted_room(view, 2, 3_000) == 0


def test_what_the_user_demanded_has_its_room_whatever_the_target() -> None:
    rules = [user(f"Never open the valve of tank number {number}." * 2) for number in range(9)]
    talked = [message for rule in rules for message in (rule, says("ok"))]
    view = view_of(*talked, user("now"), window=6_000)

    assert wanted_room(view, 18, 800) >= sum(len(str(rule["content"])) for rule in rules)
    assert wanted_room(view, 18, 800) <= view.trigger // 2


def test_a_fold_ends_at_the_first_seam_that_reaches_the_target() -> None:
    view = view_of(*talk(*[1_000] * 10), user("now"))

    end = fold_end(view, BUDGET, 12_000)

    def size(seam: int) -> int:
        return view.left_after(seam) + wanted_room(view, seam, 12_000)

    earlier = [seam for seam in view.conversation.seams if 0 < seam < end]
    assert size(end) <= 12_000
    assert earlier
    assert all(size(seam) > 12_000 for seam in earlier if seam not in (1, end - 1))


def test_a_smaller_target_folds_more() -> None:
    view = view_of(*talk(*[1_000] * 10), user("now"))

    ends = [fold_end(view, BUDGET, target) for target in (18_000, 14_000, 11_000, 6_000)]

    assert ends == sorted(ends)
    assert len(set(ends)) == 4


def test_what_will_be_added_counts_already() -> None:
    view = view_of(*talk(*[1_000] * 10), user("now"))

    assert fold_end(view, BUDGET, 12_000, 4_000) > fold_end(view, BUDGET, 12_000)


def test_where_no_seam_is_enough_the_last_one_is_taken() -> None:
    view = view_of(*talk(1_000, 1_000), *run(9_000, 9_000, 9_000))

    assert fold_end(view, BUDGET, 1_000) == view.last_end == 7


def test_the_newest_two_steps_and_the_current_request_stay() -> None:
    assert fold_end(view_of(*run(9, 9_000, 9_000)), BUDGET, 100) == 3
    assert fold_end(view_of(*talk(9_000), user("now")), BUDGET, 100) == 2


def test_a_conversation_of_one_request_has_nothing_to_fold() -> None:
    """BUGS 38"""
    assert fold_end(view_of(user(words(9_000))), BUDGET, 100) == 0
    assert fold_end(view_of(system(), user(words(900)), user(words(900))), BUDGET, 100) == 1
    assert fold_end(view_of(system(words(900))), BUDGET, 100) == 1
    assert fold_end(view_of(), BUDGET, 100) == 0


def test_a_call_without_results_yet_is_not_folded() -> None:
    view = view_of(*talk(9_000), user("go"), says("first"), calls("a"))

    assert fold_end(view, BUDGET, 100) == 2


def test_a_fold_begins_where_the_earlier_one_ended() -> None:
    view = view_of(*talk(*[1_000] * 10), user("now"), folded=8, fold_tokens=900)

    assert fold_end(view, BUDGET, 90_000) == 10
    assert later_ends(view, 10) == [12, 14, 16, 18, 20]


def test_with_nothing_behind_the_earlier_fold_there_is_nothing_to_fold() -> None:
    view = view_of(*talk(1_000), user("now"), folded=2, fold_tokens=900)

    assert fold_end(view, BUDGET, 100) == 2
    assert later_ends(view, 2) == []


@pytest.mark.parametrize(("turns", "end"), [(1, 6), (2, 4), (3, 2), (4, 0), (9, 0), (0, 6)])
def test_the_operators_number_of_turns_is_literal(turns: int, end: int) -> None:
    """Whatever the target; the current request stays even with 0."""
    view = view_of(*talk(9_000, 10, 9_000), user("now"))
    policy = replace(BUDGET, tail_turns=turns)

    assert fold_end(view, policy, 100) == end
    assert fold_end(view, policy, 90_000) == end


@pytest.mark.parametrize(
    ("tokens", "end"), [(100_000, 2), (18_100, 2), (18_000, 4), (9_050, 4), (9_000, 6), (0, 6)]
)
def test_the_operators_number_of_tokens_is_literal(tokens: int, end: int) -> None:
    view = view_of(*talk(4_500, 4_500, 4_500), user("now"))
    policy = replace(BUDGET, tail_tokens=tokens)

    assert fold_end(view, policy, 100) == end
    assert fold_end(view, policy, 90_000) == end


def test_turns_and_tokens_together_keep_what_both_allow() -> None:
    view = view_of(*talk(10, 4_500, 10), user("now"))

    assert fold_end(view, replace(BUDGET, tail_turns=2, tail_tokens=90_000), 100) == 4
    assert fold_end(view, replace(BUDGET, tail_turns=3, tail_tokens=100), 100) == 4
    assert fold_end(view, replace(BUDGET, tail_turns=3, tail_tokens=9), 100) == 6


@given(histories, st.integers(0, 3_000), st.data())
def test_a_fold_ends_at_a_seam_and_never_behind_the_newest_steps(
    history: list[dict[str, Any]], target: int, data: st.DataObject
) -> None:
    """BUGS 1"""
    seams = conversation(*history).seams
    view = view_of(*history, folded=data.draw(st.sampled_from(seams)))
    policy = replace(
        BUDGET,
        tail_turns=data.draw(st.none() | st.integers(0, 3)),
        tail_tokens=data.draw(st.none() | st.integers(0, 60)),
    )

    end = fold_end(view, policy, target)

    assert end in seams
    assert view.folded <= end <= max(view.folded, view.last_end)
    assert [seam for seam in later_ends(view, end) if seam not in seams] == []


def test_a_long_talk_and_a_long_run_take_no_time() -> None:
    long_talk = view_of(*talk(*[30] * 8_000), user("now"))
    steps = [message for number in range(8_000) for message in read_step(f"s{number}", 10)]
    long_run = view_of(user("go"), *steps)
    started = time.process_time()

    assert fold_end(long_talk, BUDGET, 60_000) > 10_000
    assert fold_end(long_run, BUDGET, 60_000) > 10_000

    assert time.process_time() - started < 3
