"""How long a summary and what stands beside it may be, from the smallest windows on."""

from dataclasses import replace

import pytest

from chat_proxy.compaction.budget import Budget, BudgetPolicy
from chat_proxy.compaction.summary.plan import tail_tokens
from chat_proxy.proxy.routing.summary_policy import SummaryPolicy, ledger_tokens, verbatim_tokens

POLICY = SummaryPolicy(
    enabled=True,
    model=None,
    base_url=None,
    api_key=None,
    timeout_seconds=30,
    waits_at_trigger=True,
    keep_alive_seconds=0,
    max_tokens=4_096,
    temperature=None,
    extra_body={},
    instruction="",
)


def budget(window: int) -> Budget:
    return Budget.of(window, {"max_tokens": 24}, BudgetPolicy(0.8, 0.65, None))


@pytest.mark.parametrize("window", [1_024, 2_048, 4_096, 8_192, 32_768, 131_072, 1_000_000])
def test_a_fold_at_its_largest_ends_below_the_trigger(window: int) -> None:
    given = budget(window)

    written = POLICY.summary_tokens(given) + ledger_tokens(given) + verbatim_tokens(given)

    assert written + tail_tokens(given) < 0.9 * given.trigger


def test_a_usual_window_has_room_for_a_whole_summary() -> None:
    assert POLICY.summary_tokens(budget(4_096)) == 700
    assert POLICY.summary_tokens(budget(32_768)) == 4_093
    assert ledger_tokens(budget(8_192)) == 256


def test_the_operators_own_limit_holds() -> None:
    assert replace(POLICY, max_tokens=300).summary_tokens(budget(32_768)) == 300
