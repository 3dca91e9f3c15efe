"""Each form of a plan with small numbers: which one is taken, and what it does."""

from dataclasses import replace

from chat_proxy.compaction.ageing.policy import AgeingPolicy
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.budget import BudgetPolicy
from chat_proxy.compaction.planner.forms import NO_FOLD, FoldOption, Goal, Planner
from chat_proxy.compaction.planner.plan import Plan
from chat_proxy.compaction.planner.view import View
from tests.unit.chat.shapes import system, user
from tests.unit.compaction.examples import at
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
ONLY_AGE = FoldOption(may_age=True)
OFF = replace(AGEING, enabled=False)


def plan(
    view: View,
    target: int,
    limit: int | None = None,
    option: FoldOption = ANY_FOLD,
    ageing: AgeingPolicy = AGEING,
    budget: BudgetPolicy = BUDGET,
) -> Plan:
    limit = limit or target
    found = Planner(view, ageing, budget).plan(Goal(target, limit, limit + 200), option)
    assert found is not None
    return found


# Nothing to do


def test_a_prompt_at_its_target_is_unchanged() -> None:
    view = view_of(*talk(100, 100), user("now"))

    found = plan(view, view.tokens)

    assert (found.form, found.end, found.room, found.folds) == ("unchanged", 0, None, False)
    assert found.tokens == view.tokens
    assert not found.treatments


# Superseded results


def test_a_result_that_came_again_becomes_a_line_first() -> None:
    again = [*read_step("same", 2_000), *read_step("b", 900), *read_step("c", 900)]
    messages = [user("go"), *read_step("same", 2_000), *again]
    view = view_of(*messages)

    found = plan(view, view.tokens - 100, option=NO_FOLD)

    assert found.form == "superseded"
    assert found.treatments == Treatments(lines=at(2))
    assert found.reasons == {2: "the same call of read_file came again later"}
    assert found.tokens == view.tokens - 2_000 + 70


def test_without_ageing_nothing_is_superseded() -> None:
    messages = [user("go"), *read_step("same", 2_000), *read_step("same", 2_000), *run(9, 9)[1:]]
    view = view_of(*messages)

    assert Planner(view, OFF, BUDGET).plan(Goal(100, 200, 300), NO_FOLD) is None


# Ageing without a fold


def test_old_results_are_shortened_only_as_far_as_the_target_demands() -> None:
    view = view_of(*run(9_000, 9_000, 9_000, 9_000))

    found = plan(view, view.tokens - 4_000, option=ONLY_AGE)

    assert found.form == "aged"
    assert found.treatments.lines == at()
    ((place, size),) = found.treatments.short.items()
    assert place.origin == 2
    assert 4_500 < size <= 5_000
    assert found.tokens <= view.tokens - 4_000


def test_results_become_lines_when_shortening_is_not_enough_oldest_first() -> None:
    view = view_of(*run(9_000, 9_000, 9_000, 9_000))

    found = plan(view, view.tokens - 14_000, option=ONLY_AGE)

    assert found.treatments.lines == at(2)
    assert {place.origin for place in found.treatments.short} == {4}
    assert found.tokens <= view.tokens - 14_000


def test_the_newest_two_steps_do_not_age() -> None:
    view = view_of(*run(9_000, 9_000, 9_000))

    found = Planner(view, AGEING, BUDGET).plan(Goal(100, 20_000, 20_000), ONLY_AGE)

    assert found is not None
    assert found.treatments == Treatments(lines=at(2))


def test_small_results_stay() -> None:
    view = view_of(*run(249, 251, 9_000, 9_000))

    found = Planner(view, AGEING, BUDGET).plan(Goal(100, 99_000, 99_000), ONLY_AGE)

    assert found is not None
    assert found.treatments.lines == at(4)


def test_ageing_that_saves_less_than_the_minimum_is_not_done() -> None:
    view = view_of(*talk(2_000), *run(9_000, 9_000, 9_000), window=80_000)
    default = replace(AGEING, minimum_tokens=9_500, is_minimum_literal=False)
    literal = replace(AGEING, minimum_tokens=9_500)
    ready = FoldOption(end=2, is_allowed=True)

    assert not plan(view, 18_900, 90_000, ONLY_AGE, default).treatments
    assert not plan(view, 18_900, 90_000, ONLY_AGE, literal).treatments
    assert not plan(view, 18_900, 90_000, ready, literal).treatments
    assert plan(view, 18_900, 90_000, ready, default).treatments


def test_where_nothing_may_be_done_there_is_no_plan() -> None:
    view = view_of(*run(9_000, 9_000, 9_000))
    goal = Goal(100, 5_000, 5_000)

    assert Planner(view, AGEING, BUDGET).plan(goal, NO_FOLD) is None
    assert Planner(view, OFF, BUDGET).plan(goal, ONLY_AGE) is None
    assert Planner(view, AGEING, BUDGET).plan(goal, ONLY_AGE) is None


# Folds


def test_older_turns_are_folded_and_the_text_fills_the_room_up_to_the_target() -> None:
    view = view_of(system("s" * 96), *talk(*[1_000] * 10), user("now"))

    found = plan(view, 12_000, 20_000)

    assert found.form == "folded"
    assert 1 < found.end < 21
    assert found.end in view.conversation.seams
    assert not found.treatments
    assert found.tokens == 12_000
    assert found.room is not None
    assert found.room > 3_000


def test_a_summary_that_is_ready_says_where_the_fold_ends() -> None:
    view = view_of(*talk(*[1_000] * 10), user("now"))

    found = plan(view, 16_000, 20_000, FoldOption(end=8, is_allowed=True))

    assert (found.form, found.end) == ("folded", 8)
    assert found.tokens == 16_000


def test_a_ready_summary_before_large_results_has_them_aged() -> None:
    view = view_of(*talk(2_000, 2_000), *run(9_000, 9_000, 9_000, 9_000))

    found = plan(view, 24_000, 40_000, FoldOption(end=4, is_allowed=True))

    assert (found.form, found.end) == ("folded and aged", 4)
    assert {place.origin for place in found.treatments.short} | {
        place.origin for place in found.treatments.lines
    } <= {6, 8}
    assert found.tokens <= 40_000
    assert found.tokens >= 24_000


def test_more_is_folded_when_ageing_is_not_enough() -> None:
    view = view_of(*talk(500, 500), *talk(*[4_000] * 4), user("now"))

    found = plan(view, 6_000, 12_000, FoldOption(end=2, is_allowed=True), OFF)

    assert found.form == "folded further"
    assert found.end in (8, 10, 12)
    assert found.tokens <= 12_000


def test_the_folded_text_gets_what_is_left_when_nothing_more_can_be_folded() -> None:
    view = view_of(*talk(3_000, 3_000), user(words(9_000)))

    found = plan(view, 5_000, 9_500)

    assert (found.form, found.end) == ("fold cut", 4)
    assert found.tokens == 9_500
    assert found.room is not None
    assert 160 <= found.room < 600


def test_a_folded_text_above_the_target_has_what_it_needs_up_to_the_trigger() -> None:
    view = view_of(*talk(*[1_000] * 10), user(words(4_500)), window=12_000)

    found = plan(view, 5_000, 10_000)

    assert found.form == "folded and aged"
    assert found.room is not None
    assert found.room >= 2_000
    assert found.tokens <= view.trigger


def test_a_folded_text_has_room_for_more_than_its_frame() -> None:
    """Half of what it needs was too little for any content, and the summary was thrown away."""
    view = view_of(*talk(*[300] * 5), *run(100, 100), window=2_400)

    found = plan(view, 600, 1_700)

    assert found.room is not None
    assert found.room >= 400


def test_one_long_newest_result_leaves_room_for_what_the_user_demanded() -> None:
    rule = user("Never open the valve of the second tank without asking me for it before.")
    view = view_of(*talk(500), rule, *talk(500), *run(9_000), window=6_000)

    found = plan(view, 2_000, 4_000)

    assert found.form == "newest steps shortened"
    assert found.room is not None
    assert 320 <= found.room <= 480


def test_the_text_of_an_earlier_fold_is_cut_too() -> None:
    view = view_of(*talk(500), user(words(9_000)), folded=2, fold_tokens=3_000)

    found = plan(view, 5_000, 9_500)

    assert (found.form, found.end) == ("fold cut", 2)
    assert found.tokens == 9_500


# Idle conversations, and summaries that are prepared


def test_an_idle_conversation_ages_only_if_that_saves_enough() -> None:
    view = view_of(*run(9_000, 9_000, 9_000))
    greedy = replace(AGEING, minimum_tokens=8_931)

    idle = Planner(view, replace(AGEING, minimum_tokens=8_930), BUDGET).idle()

    assert idle is not None
    assert (idle.form, idle.treatments) == ("aged", Treatments(lines=at(2)))
    assert Planner(view, greedy, BUDGET).idle() is None


def test_a_summary_that_is_prepared_ends_later_by_what_will_be_added() -> None:
    planner = Planner(view_of(*talk(*[1_000] * 10), user("now")), AGEING, BUDGET)

    assert planner.end_for_summary(12_000, 0) < planner.end_for_summary(12_000, 3_000)
