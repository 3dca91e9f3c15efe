"""The budget: numbers of DESIGN §6 at their edges."""

import pytest

from chat_proxy.compaction.budget import Budget, BudgetPolicy

POLICY = BudgetPolicy(threshold=0.8, prepare=0.65, reserve_tokens=None)


def test_the_request_s_own_maximum_is_reserved() -> None:
    budget = Budget.of(100_000, {"max_tokens": 10_000}, POLICY)

    assert (budget.reserve, budget.usable, budget.trigger, budget.prepare) == (
        10_000,
        90_000,
        72_000,
        58_500,
    )


def test_max_completion_tokens_goes_before_max_tokens() -> None:
    budget = Budget.of(100_000, {"max_completion_tokens": 1_000, "max_tokens": 9_000}, POLICY)

    assert budget.reserve == 1_000


def test_without_a_maximum_twenty_thousand_are_reserved() -> None:
    assert Budget.of(200_000, {}, POLICY).reserve == 20_000


def test_the_reserve_is_never_more_than_a_quarter_of_the_window() -> None:
    """BUGS 8: an output limit as large as the window left nothing usable."""
    budget = Budget.of(8_192, {"max_tokens": 8_192}, POLICY)

    assert budget.reserve == 2_048
    assert budget.usable == 6_144


def test_a_configured_reserve_goes_before_the_request_s() -> None:
    policy = BudgetPolicy(0.8, 0.65, reserve_tokens=500)

    assert Budget.of(8_192, {"max_tokens": 2_000}, policy).reserve == 500


@pytest.mark.parametrize("odd", [0, -1, True, "many", None, 1.5])
def test_an_odd_maximum_counts_as_none(odd: object) -> None:
    assert Budget.of(400_000, {"max_tokens": odd}, POLICY).reserve == 20_000


@pytest.mark.parametrize(
    ("window", "wanted", "limit"),
    [(100_000, 20_000, 95_000), (100_000, 1_000, 98_000), (8_192, 8_192, 7_680)],
)
def test_a_prompt_may_fill_the_window_but_for_some_answer(
    window: int, wanted: int, limit: int
) -> None:
    """A quarter of the reserve, and a fiftieth of the window at least."""
    assert Budget.of(window, {"max_tokens": wanted}, POLICY).limit == limit


def test_where_the_prompt_is_counted_apart_it_has_its_own_limit() -> None:
    budget = Budget.of(100_000, {"max_tokens": 1_000}, POLICY, input_limit=50_000)

    assert (budget.limit, budget.usable, budget.trigger) == (50_000, 50_000, 40_000)


def test_the_clear_stages_come_down_to_three_fifths_of_the_trigger() -> None:
    assert Budget.of(100_000, {"max_tokens": 10_000}, POLICY).target == 43_200


def test_a_better_summary_is_waited_for_while_the_answer_keeps_its_room() -> None:
    budget = Budget.of(100_000, {"max_tokens": 10_000}, POLICY)

    assert budget.least_growth == 24_000
    assert (budget.trigger, budget.late, budget.patience) == (72_000, 81_000, 90_000)


def test_with_a_low_threshold_nothing_is_waited_for_far_beyond_it() -> None:
    low = BudgetPolicy(threshold=0.3, prepare=0.2, reserve_tokens=None)
    budget = Budget.of(100_000, {"max_tokens": 10_000}, low)

    assert (budget.trigger, budget.patience) == (27_000, 36_000)


@pytest.mark.parametrize(
    ("fields", "reserve"),
    [({}, 4_000), ({"max_tokens": 1_000}, 1_000), ({"max_tokens": 8_000}, 8_000)],
)
def test_the_longest_answer_of_the_model_is_the_default_of_the_reserve(
    fields: dict[str, int], reserve: int
) -> None:
    assert Budget.of(100_000, fields, POLICY, max_output=4_000).reserve == reserve


def test_a_reserve_that_is_set_is_not_lowered_by_the_model() -> None:
    policy = BudgetPolicy(0.8, 0.65, 10_000)

    assert Budget.of(100_000, {}, policy, max_output=4_000).reserve == 10_000
