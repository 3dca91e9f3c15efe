"""What the planner sees: sizes, newest steps, ends, pace, trigger and target."""

import pytest

from chat_proxy.compaction.planner.view import pace_of
from tests.unit.chat.shapes import Fields, calls, conversation, result, says, system, user
from tests.unit.compaction.planner.views import run, talk, view_of, words


def test_the_fixed_part_is_instructions_and_what_is_beside_the_messages() -> None:
    view = view_of(system("s" * 96), system("t" * 46), *talk(100), user("now"), beside=1_000)

    assert view.fixed == 1_000 + 100 + 50


def test_the_tokens_are_those_of_the_prompt_with_its_fold() -> None:
    messages = [system("s" * 96), *talk(100, 100), user("now")]

    assert view_of(*messages).tokens == 100 + 4 * 104 + 7
    assert view_of(*messages, folded=3, fold_tokens=70).tokens == 100 + 70 + 2 * 104 + 7
    assert view_of(*messages, folded=3).with_fold(70).tokens == 100 + 70 + 2 * 104 + 7


def test_the_request_of_a_divided_turn_stays_beside_the_fold() -> None:
    view = view_of(*talk(100), user("t" * 46), *run(100, 100)[1:])

    assert view.left_after(2) - view.left_after(5) == view.sums[5] - view.sums[3]
    assert view.left_after(len(view.conversation)) == 0


@pytest.mark.parametrize(
    ("messages", "steps"),
    [
        ([], ()),
        ([user()], ()),
        ([*talk(9), user()], ()),
        (run(9), ((1, 3),)),
        (run(9, 9, 9), ((3, 5), (5, 7))),
        ([*run(9), says()], ((1, 3), (3, 4))),
        ([*run(9, 9), user("Stop!")], ((3, 5),)),
        ([*run(9, 9), says(), user("Next")], ()),
        ([user(), calls("a", "b"), result("a"), user("hurry"), result("b")], ((1, 5),)),
    ],
)
def test_the_newest_two_steps_are_those_that_the_model_works_with(
    messages: list[Fields], steps: tuple[tuple[int, int], ...]
) -> None:
    """Of the current turn; or without an answer, because the user interrupted."""
    assert view_of(*messages).newest_steps == steps


@pytest.mark.parametrize(
    ("messages", "last", "smallest"),
    [
        ([user()], 0, 0),
        ([system(), user()], 1, 1),
        ([*talk(9), user()], 2, 2),
        (run(9), 0, 0),
        (run(9, 9), 0, 3),
        (run(9, 9, 9), 3, 5),
        ([*talk(9), *run(9)], 2, 2),
        ([*run(9, 9), user("Stop!")], 3, 3),
        ([*run(9, 9), says(), user("Next")], 6, 6),
        ([*talk(9), user("a"), user("b")], 2, 2),
    ],
)
def test_the_last_ends_leave_the_newest_steps_and_the_request(
    messages: list[Fields], last: int, smallest: int
) -> None:
    view = view_of(*messages)

    assert (view.last_end, view.smallest_end) == (last, smallest)


def test_no_end_is_before_the_earlier_fold() -> None:
    view = view_of(*run(9, 9), folded=5)

    assert (view.last_end, view.smallest_end) == (5, 5)


def test_the_pace_is_the_growth_per_answer_of_late() -> None:
    talked = conversation(*talk(100, 100, 100), user("now"))

    assert pace_of(talked, [10, 20, 10, 20, 10, 20, 30]) == (20 + 10 + 20 + 10 + 20 + 30) // 3
    assert pace_of(conversation(user()), [500]) == 0


def test_the_pace_forgets_a_large_paste_long_ago() -> None:
    messages = [user(words(90_000)), says(), *talk(*[10] * 30), user("now")]

    assert view_of(*messages).pace < 40


def test_an_ordinary_conversation_has_the_trigger_and_target_of_its_budget() -> None:
    view = view_of(*talk(100, 100), user("now"), window=10_000, beside=500)

    assert view.trigger == view.budget.trigger == 7_000
    assert view.target == view.budget.target(view.pace)


def test_a_compaction_leaves_the_conversation_almost_half_of_what_instructions_leave() -> None:
    """A fixed part just below half of the trigger once left a folded text of a few tokens."""
    view = view_of(*talk(600, 600), user("now"), window=10_000, beside=3_400)

    assert view.trigger == view.budget.trigger == 7_000
    assert view.budget.target(view.pace) == 3_500
    assert view.target == 3_400 + 1_620


def test_a_large_fixed_part_has_its_trigger_in_what_it_leaves() -> None:
    """Otherwise every request would be over it, and would be compacted again."""
    view = view_of(*talk(100), user("now"), window=10_000, beside=8_000)

    assert view.budget.trigger < 8_000 < view.target < view.trigger < view.budget.limit


def test_a_fixed_part_over_the_window_leaves_nothing() -> None:
    view = view_of(user("now"), window=10_000, beside=12_000)

    assert view.trigger == view.target == view.budget.limit
