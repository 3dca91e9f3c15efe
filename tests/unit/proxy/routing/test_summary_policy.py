"""How long a summary may be, from the smallest windows on."""

from dataclasses import replace

import pytest

from chat_proxy.compaction.budget import Budget, BudgetPolicy
from chat_proxy.proxy.routing.summary_policy import SummaryPolicy

POLICY = SummaryPolicy(
    enabled=True,
    model=None,
    base_url=None,
    api_key="secret-key",
    timeout_seconds=30,
    waits_at_trigger=True,
    keep_alive_seconds=0,
    max_tokens=4_096,
    temperature=None,
    extra_body={},
    instruction="",
)


def budget(window: int) -> Budget:
    return Budget.of(window, {"max_tokens": 24}, BudgetPolicy(0.8, 0.65))


@pytest.mark.parametrize("window", [1_024, 2_048, 4_096, 8_192, 32_768, 131_072, 1_000_000])
def test_a_summary_has_at_most_a_quarter_of_the_usable_window(window: int) -> None:
    given = budget(window)

    assert POLICY.summary_tokens(given) <= given.usable // 4


def test_a_usual_window_has_room_for_a_whole_summary() -> None:
    assert POLICY.summary_tokens(budget(4_096)) == 700
    assert POLICY.summary_tokens(budget(32_768)) == 4_093
    assert POLICY.summary_tokens(budget(131_072)) == 4_096


def test_the_operators_own_limit_holds() -> None:
    assert replace(POLICY, max_tokens=300).summary_tokens(budget(32_768)) == 300


def test_the_substance_has_what_decides_about_a_summary_and_no_secret() -> None:
    assert POLICY.substance == replace(POLICY, timeout_seconds=5, api_key="other").substance
    assert POLICY.substance != replace(POLICY, model="other").substance
    assert POLICY.substance != replace(POLICY, instruction="Be brief.").substance
    assert "secret-key" not in POLICY.substance + repr(POLICY)


def test_the_order_of_extra_fields_does_not_matter() -> None:
    one = replace(POLICY, extra_body={"a": 1, "b": 2})
    other = replace(POLICY, extra_body={"b": 2, "a": 1})

    assert one.substance == other.substance
