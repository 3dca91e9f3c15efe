"""What may age in a plan: protected tools, tokens, turns and results; shares of the room."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.ageing.policy import AgeingPolicy
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.media_notes import LEFT_OUT_NOTE
from chat_proxy.compaction.planner.view import View
from chat_proxy.compaction.planner.working import (
    WorkingPlan,
)
from chat_proxy.compaction.shares import fair_share
from tests.unit.chat.shapes import calls, image, result, says, system, text, user
from tests.unit.compaction.examples import at, embedded, sized
from tests.unit.compaction.planner.views import AGEING, read_step, run, view_of, words


def lines(view: View, policy: AgeingPolicy = AGEING) -> set[int]:
    """Return the messages that become lines if everything ages that may."""
    working = WorkingPlan(view, policy)
    working.age_results(0)
    return {place.origin for place in working.plan("aged").treatments.lines}


def media(view: View, policy: AgeingPolicy = AGEING) -> Treatments:
    working = WorkingPlan(view, policy)
    working.age_media()
    return Treatments(media=working.plan("aged").treatments.media)


SIX = [*run(900, 900, 900, 900), says("done"), user("next"), *run(900, 900)[1:]]
"""Two turns: results at 2, 4, 6, 8 and, in the newest two steps, at 12 and 14."""


def test_all_but_the_newest_two_steps_may_age() -> None:
    assert lines(view_of(*SIX)) == {2, 4, 6, 8}


@pytest.mark.parametrize(
    ("tokens", "aged"),
    [(0, {2, 4, 6, 8}), (2_699, {2, 4, 6, 8}), (2_700, {2, 4, 6}), (9_999, set())],
)
def test_the_newest_tokens_of_tool_output_are_protected(tokens: int, aged: set[int]) -> None:
    """A result that exceeds the protected tokens ages as a whole."""
    assert lines(view_of(*SIX), replace(AGEING, protect_tokens=tokens)) == aged


@pytest.mark.parametrize(("kept", "aged"), [(2, {2, 4, 6, 8}), (3, {2, 4, 6}), (6, set())])
def test_the_newest_results_are_kept_whatever_their_size(kept: int, aged: set[int]) -> None:
    assert lines(view_of(*SIX), replace(AGEING, keep_results=kept)) == aged


def test_protected_turns_are_protected_while_they_are_below_the_trigger() -> None:
    two = replace(AGEING, protect_turns=2)

    assert lines(view_of(*SIX), replace(AGEING, protect_turns=1)) == {2, 4, 6, 8}
    assert lines(view_of(*SIX), two) == set()
    assert lines(view_of(*SIX, window=6_000), two) == {2, 4, 6, 8}


def test_results_of_protected_tools_do_not_age_but_count_as_tool_output() -> None:
    messages = [
        user("go"),
        *read_step("a", 900, "skill"),
        *read_step("b", 900),
        *read_step("c", 900, "skill"),
        *run(900, 900)[1:],
    ]

    assert lines(view_of(*messages)) == {4}
    assert lines(view_of(*messages), replace(AGEING, protect_tokens=3_599)) == {4}
    assert lines(view_of(*messages), replace(AGEING, protect_tokens=3_600)) == set()


def test_embedded_results_age_too() -> None:
    view = view_of(user(), says(f"a {embedded('f', words(900))} b"), user("next"), *run(9, 9)[1:])
    working = WorkingPlan(view, AGEING)

    working.age_results(0)

    assert working.plan("aged").treatments.lines == at((1, 0))


def test_what_is_a_line_already_is_no_line_again() -> None:
    done = Treatments(lines=at(2))
    working = WorkingPlan(view_of(*SIX, treatments=done), AGEING)

    working.age_results(0)

    plan = working.plan("aged")
    assert plan.treatments.lines == at(2, 4, 6, 8)
    assert 2 not in plan.reasons


def test_earlier_treatments_stay_in_the_plan() -> None:
    done = Treatments(lines=at(2), short=sized(500, 4), media=at((0, 0)))

    plan = WorkingPlan(view_of(*SIX, treatments=done), AGEING).plan("unchanged")

    assert plan.treatments == done


def test_results_before_the_fold_do_not_age() -> None:
    working = WorkingPlan(view_of(*SIX), AGEING)
    working.end = 5

    working.age_results(0)

    assert working.plan("aged").treatments.lines == at(6, 8)


def test_media_beyond_the_newest_few_are_noted_by_kind() -> None:
    look = [user([text("look"), image(), image()]), says()]
    shots = [calls("a"), result("a", [text("x"), image()]), calls("b"), result("b", [image()])]
    view = view_of(system([image()]), *look, user("go"), *shots, says(), *look, user("now"))

    assert media(view).media == at((1, 0), (1, 1), (5, 0), (9, 0))
    assert media(view, replace(AGEING, keep_user_media=3)).media == at((1, 0), (5, 0))
    assert media(view, replace(AGEING, keep_images=4)).media == at((1, 0), (1, 1))
    assert media(view, replace(AGEING, keep_tool_media=0)).media >= at((5, 0), (7, 0))


def test_the_oldest_media_are_noted_first_until_the_rest_fits() -> None:
    looks = [message for _ in range(5) for message in (user([image()]), says())]
    working = WorkingPlan(view_of(*looks, user("now")), AGEING)

    working.age_media(working.rest - 1_500)

    assert working.plan("aged").treatments.media == at((0, 0), (2, 0))


def test_media_attached_to_a_result_count_as_those_of_tools() -> None:
    shots = [calls("a"), result("a"), user([image()]), calls("b"), result("b"), user([image()])]
    view = view_of(user([image()]), *shots, says(), user("now"))

    assert media(view).media == at((3, 0))


def test_media_of_the_current_request_and_the_newest_steps_stay() -> None:
    """BUGS 32"""
    shots = [calls("a"), result("a", [image()]), calls("b"), result("b", [image()])]
    none_kept = replace(AGEING, keep_user_media=0, keep_tool_media=0, keep_images=0)

    assert not media(view_of(user([image(), image()]), *shots), none_kept)


def test_media_that_are_noted_do_not_count_again() -> None:
    working = WorkingPlan(view_of(user([image()]), says(), user([image()]), says(), user()), AGEING)

    working.age_media()
    working.note_older_media()
    working.note_older_media()

    assert working.plan("aged").tokens == working.tokens
    notes = (f"[Old inline media cleared: image/png] 1x1, message #{n}" for n in (0, 2))
    said = "; the assistant said: ok"
    assert working.tokens == 4 * 5 + 2 * 2 + 2 + sum(len(note + said) for note in notes)


def test_current_media_are_counted_once_however_often_they_are_named() -> None:
    working = WorkingPlan(view_of(user([image(), image()])), AGEING)

    working.note_current_media(0)
    working.note_current_media(0)

    assert working.tokens == 4 + 2 * len("[Attached image/png: file]") + len(LEFT_OUT_NOTE)
    assert working.plan("media noted").current_media == 0


@given(st.lists(st.integers(0, 500), max_size=8), st.integers(0, 2_000))
def test_a_fair_share_fits_the_room_and_wastes_none(sizes: list[int], room: int) -> None:
    share = fair_share(sizes, room)

    cut = [min(size, share) for size in sizes]
    assert sum(cut) <= room or not sizes or room == 0
    if sum(sizes) > room:
        assert room - sum(cut) < len(sizes)
    else:
        assert cut == sizes


def test_a_fair_share_takes_from_the_largest() -> None:
    assert fair_share([100, 900, 900], 1_100) == 500
    assert fair_share([900], 100) == 100
    assert fair_share([], 100) == 0
