"""The budget: reserve, trigger, target and limits at their edges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.budget import Budget, BudgetPolicy, requested_output

POLICY = BudgetPolicy(threshold=0.8, prepare=0.65)


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


@pytest.mark.parametrize(
    ("window", "reserve"),
    [(8_000, 1_000), (100_000, 12_500), (160_000, 20_000), (1_000_000, 20_000)],
)
def test_without_a_maximum_an_eighth_of_the_window_is_reserved(window: int, reserve: int) -> None:
    """20,000 at most."""
    assert Budget.of(window, {}, POLICY).reserve == reserve


@pytest.mark.parametrize(
    ("fields", "reserve"),
    [({}, 4_000), ({"max_tokens": 1_000}, 1_000), ({"max_tokens": 8_000}, 8_000)],
)
def test_the_longest_answer_of_the_model_is_the_default(
    fields: dict[str, int], reserve: int
) -> None:
    assert Budget.of(100_000, fields, POLICY, max_output=4_000).reserve == reserve


def test_the_reserve_is_never_more_than_a_quarter_of_the_window() -> None:
    """BUGS 8: an output limit as large as the window left nothing usable."""
    budget = Budget.of(8_192, {"max_tokens": 8_192}, POLICY)

    assert (budget.reserve, budget.usable) == (2_048, 6_144)
    assert Budget.of(8_192, {}, POLICY, max_output=32_000).reserve == 2_048


@pytest.mark.parametrize("tokens", [0, 500, 6_000])
def test_configured_reserve_tokens_are_taken_literally(tokens: int) -> None:
    """Also 0, and more than a quarter."""
    policy = BudgetPolicy(0.8, 0.65, reserve_tokens=tokens, reserve_ratio=0.5)

    assert Budget.of(8_192, {"max_tokens": 2_000}, policy, max_output=700).reserve == tokens


@pytest.mark.parametrize(("ratio", "reserve"), [(0.0, 0), (0.1, 819), (0.5, 4_096)])
def test_a_configured_reserve_ratio_is_taken_literally(ratio: float, reserve: int) -> None:
    policy = BudgetPolicy(0.8, 0.65, reserve_ratio=ratio)

    assert Budget.of(8_192, {"max_tokens": 2_000}, policy).reserve == reserve


@pytest.mark.parametrize("odd", [0, -1, True, "many", None, 1.5])
def test_an_odd_maximum_counts_as_none(odd: object) -> None:
    assert Budget.of(400_000, {"max_tokens": odd}, POLICY).reserve == 20_000
    assert requested_output({"max_completion_tokens": odd, "max_tokens": 7}) == 7
    assert requested_output({"max_tokens": odd}) == 0


@pytest.mark.parametrize(
    ("pace", "target"),
    [(0, 61_200), (500, 61_200), (540, 61_200), (1_000, 52_000), (1_800, 36_000), (9_000, 36_000)],
)
def test_the_target_leaves_twenty_requests_of_growth(pace: int, target: int) -> None:
    """Between 0.5 and 0.85 of the trigger, which is 72,000."""
    assert Budget.of(100_000, {"max_tokens": 10_000}, POLICY).target(pace) == target


def test_a_summary_is_prepared_two_requests_ahead() -> None:
    budget = Budget.of(100_000, {"max_tokens": 10_000}, POLICY)

    assert budget.prepare_from(1_000) == 70_000
    assert budget.prepare_from(100_000) == budget.prepare == 58_500


@pytest.mark.parametrize(
    ("window", "wanted", "limit"),
    [
        (100_000, 20_000, 95_000),
        (100_000, 1_000, 98_000),
        (8_192, 8_192, 7_680),
        (8_192, 24, 8_029),
    ],
)
def test_the_limit_leaves_an_ordinary_answer(window: int, wanted: int, limit: int) -> None:
    """A quarter of the reserve, the shortest answer, and a fiftieth of the window at least."""
    assert Budget.of(window, {"max_tokens": wanted}, POLICY).limit == limit


def test_the_hard_limit_leaves_the_shortest_answer_and_a_margin() -> None:
    budget = Budget.of(8_192, {"max_tokens": 8_192}, POLICY)

    assert budget.least_answer == 256
    assert budget.hard_limit == 8_192 - 256 - 81 - 1


def test_the_shortest_answer_is_at_most_what_the_request_asks_for() -> None:
    policy = BudgetPolicy(0.8, 0.65, min_answer_tokens=1_000)

    assert Budget.of(100_000, {"max_tokens": 24}, policy).least_answer == 24
    assert Budget.of(100_000, {"max_tokens": 5_000}, policy).least_answer == 1_000
    assert Budget.of(100_000, {}, policy).least_answer == 1_000


def test_where_the_prompt_is_limited_separately_that_limit_holds() -> None:
    budget = Budget.of(100_000, {"max_tokens": 1_000}, POLICY, input_limit=50_000)

    assert (budget.limit, budget.hard_limit) == (50_000, 50_000)
    assert (budget.usable, budget.trigger) == (50_000, 40_000)


def test_a_reserve_over_the_window_leaves_nothing_but_no_error() -> None:
    """BUGS 8"""
    budget = Budget.of(8_192, {}, BudgetPolicy(0.8, 0.65, reserve_tokens=9_000))

    assert budget.usable < 0
    assert budget.target(100) <= budget.trigger // 2 < 0
    assert 0 < budget.limit <= budget.hard_limit < budget.window


@given(
    st.integers(1_000, 200_000),
    st.integers(0, 100_000),
    st.integers(0, 50_000),
    st.one_of(st.none(), st.integers(500, 200_000)),
)
def test_the_sizes_are_in_order(
    window: int, wanted: int, pace: int, input_limit: int | None
) -> None:
    budget = Budget.of(window, {"max_tokens": wanted}, POLICY, input_limit)

    assert budget.target(pace) <= budget.trigger <= budget.usable
    assert budget.prepare <= budget.prepare_from(pace) <= budget.trigger
    assert budget.limit <= budget.hard_limit <= window - budget.least_answer
    assert budget.hard_limit <= (input_limit or window)
    assert budget.target(pace) >= budget.target(pace + 1)
