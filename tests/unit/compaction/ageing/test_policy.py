"""Which results may age: the numbers of PRUNE_* at their edges."""

from dataclasses import replace

import pytest

from chat_proxy.compaction.ageing.policy import AgeingPolicy
from chat_proxy.compaction.budget import Budget, BudgetPolicy

POLICY = AgeingPolicy(
    enabled=True,
    protect_tokens=40_000,
    minimum_tokens=20_000,
    protect_turns=2,
    protected_tools=frozenset(),
    keep_results=1,
    keep_user_media=1,
    keep_tool_media=1,
    old_max_bytes=3_000,
)


def window(tokens: int) -> Budget:
    return Budget.of(tokens, {}, BudgetPolicy(0.8, 0.65))


def test_a_large_window_has_the_numbers_of_the_settings() -> None:
    assert POLICY.protected(window(200_000)) == 40_000
    assert POLICY.minimum(window(200_000)) == 20_000


def test_a_small_window_protects_a_quarter_and_asks_for_an_eighth() -> None:
    assert POLICY.protected(window(8_192)) == 2_048
    assert POLICY.minimum(window(8_192)) == 1_024


def test_what_the_operator_set_is_taken_literally() -> None:
    literal = replace(POLICY, is_protect_literal=True, is_minimum_literal=True)

    assert literal.protected(window(8_192)) == 40_000
    assert literal.minimum(window(8_192)) == 20_000


@pytest.mark.parametrize(
    ("tokens", "largest", "most"),
    [(40_000, 9_000, 0), (40_001, 9_000, 9_001), (90_000, 9_000, 59_000), (45_000, 45_000, 45_000)],
)
def test_the_maximum_gain_is_known_from_the_sizes(tokens: int, largest: int, most: int) -> None:
    """Nothing of what is protected, but a result ages as a whole."""
    assert POLICY.most_gain(tokens, largest, window(1_000_000)) == most


def test_a_policy_that_is_off_gains_nothing() -> None:
    off = replace(POLICY, enabled=False)

    assert off.most_gain(90_000, 9_000, window(1_000_000)) == 0


def test_a_compaction_that_reaches_its_target_saves_enough_unless_a_minimum_is_set() -> None:
    literal = replace(POLICY, is_minimum_literal=True)

    assert POLICY.least_gain(window(200_000), 900) == 900
    assert POLICY.least_gain(window(200_000), 90_000) == 20_000
    assert literal.least_gain(window(200_000), 900) == 20_000
