"""The last forms of a plan, which lose what the model works with: taken only where they must."""

from dataclasses import replace

import pytest

from chat_proxy.compaction.planner.forms import SMALLEST_ROOM, FoldOption, Goal, Planner
from chat_proxy.compaction.planner.plan import Plan
from chat_proxy.compaction.planner.view import View
from tests.unit.chat.shapes import image, system, text, user
from tests.unit.compaction.examples import at, called, tool_step
from tests.unit.compaction.planner.views import (
    AGEING,
    BUDGET,
    read_step,
    run,
    talk,
    view_of,
    words,
)

ANY_FOLD = FoldOption(is_allowed=True)


def plan(view: View, target: int, limit: int) -> Plan:
    found = Planner(view, AGEING, BUDGET).plan(Goal(target, limit, limit + 200), ANY_FOLD)
    assert found is not None
    return found


def test_the_newest_steps_are_shortened_to_equal_shares() -> None:
    view = view_of(*talk(500), *run(20_000, 300, 20_000))

    found = plan(view, 5_000, 9_000)

    assert found.form == "newest steps shortened"
    assert found.end == view.last_end == 5
    assert [place.origin for place in found.treatments.short] == [8]
    assert found.tokens == 9_000


def test_the_shares_of_two_large_results_are_equal() -> None:
    view = view_of(*run(20_000, 20_000))

    found = plan(view, 5_000, 9_000)

    one, two = found.treatments.short.values()
    assert one == two
    assert 3_900 < one < 4_500


def test_results_of_protected_tools_in_the_newest_steps_are_shortened_as_a_last_resort() -> None:
    view = view_of(user("go"), *read_step("a", 20_000, "skill"))

    assert plan(view, 5_000, 9_000).treatments.short.keys() == at(2)


def test_results_of_exempt_tools_are_never_shortened() -> None:
    exempt = replace(AGEING, exempt_tools=frozenset({"skill"}))
    view = view_of(user("go"), *read_step("a", 20_000, "skill"), *read_step("b", 8_000))

    found = Planner(view, exempt, BUDGET).plan(Goal(5_000, 9_000, 25_000), ANY_FOLD)

    assert found is not None
    assert found.treatments.short.keys() == at(4)


def test_media_of_older_turns_are_noted_before_the_current_ones_are_named() -> None:
    messages = [user([text("look"), image()]), *read_step("a", 400), user([text("now"), image()])]
    view = view_of(*messages)

    older = plan(view, 1_000, 2_000)
    both = plan(view, 400, 1_000)

    assert (older.form, older.current_media) == ("media noted", None)
    assert older.treatments.media == at((0, 0))
    assert (both.form, both.current_media) == ("media noted", 0)
    assert "the media of the current message do not fit the window" in both.reasons.values()


def test_the_oldest_of_the_current_media_are_named_first() -> None:
    view = view_of(user([image(), image(), image(), text("compare")]))

    assert plan(view, 500, 2_300).current_media == 2
    assert plan(view, 500, 1_300).current_media == 1
    assert plan(view, 100, 200).current_media == 0


def test_in_the_smallest_form_long_arguments_are_cut() -> None:
    write = called("w", "write_file", path="a.py", content=words(9_000))
    view = view_of(*talk(2_000), user("go"), write, tool_step("w", "write_file", "ok")[1])

    found = plan(view, 500, 1_000)

    assert (found.form, found.end) == ("smallest", 2)
    assert found.treatments.calls == dict.fromkeys(at(3), 400)
    assert found.tokens <= 1_200


def test_the_smallest_form_keeps_only_the_newest_step() -> None:
    view = view_of(*talk(2_000), *run(9_000, 9_000, 9_000))

    smallest = Planner(view, AGEING, BUDGET).smallest()

    assert (smallest.form, smallest.end, smallest.room) == ("smallest", 7, SMALLEST_ROOM)
    assert smallest.treatments.short == dict.fromkeys(at(8), 240)


def test_the_smallest_form_does_not_depend_on_what_is_folded() -> None:
    small = Planner(view_of(*run(300, 9_000)), AGEING, BUDGET).smallest()
    large = Planner(view_of(*run(90_000, 9_000)), AGEING, BUDGET).smallest()

    assert small.tokens == large.tokens
    assert small.treatments == large.treatments


def test_results_without_an_answer_are_shortened_when_the_user_interrupts() -> None:
    """BUGS 38"""
    view = view_of(*run(9_000, 20_000), user("Stop!"))

    found = plan(view, 3_000, 5_000)

    assert (found.form, found.end) == ("newest steps shortened", 3)
    assert found.treatments.lines == at()
    assert found.treatments.short.keys() == at(4)


def test_an_interrupted_request_that_does_not_fit_is_folded_with_its_steps() -> None:
    view = view_of(user(words(20_000)), *read_step("a", 20_000), user("Stop!"))

    found = plan(view, 3_000, 5_000)

    assert (found.form, found.end) == ("smallest", 3)
    assert found.tokens <= 5_200


@pytest.mark.parametrize("size", [9_000, 90_000])
def test_what_cannot_fit_is_said_with_numbers(size: int) -> None:
    view = view_of(system(words(size)), user(words(4_000)), window=10_000, beside=2_000)
    planner = Planner(view, AGEING, BUDGET)

    assert planner.plan(Goal(5_000, 9_000, 9_500), ANY_FOLD) is None
    unfit = planner.unfit()
    assert (unfit.instructions, unfit.current, unfit.window) == (size + 2_004, 4_004, 10_000)
    assert f"{size + 2_004:,}" in unfit.sentence
