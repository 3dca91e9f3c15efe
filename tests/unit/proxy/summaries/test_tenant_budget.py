"""What a tenant's summaries may cost in an hour."""

from dataclasses import dataclass

from chat_proxy.proxy.summaries.tenant_budget import HOUR_SECONDS, TenantBudget


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_without_a_limit_nothing_is_counted() -> None:
    budget = TenantBudget(0)

    budget.spend("a", 10**9)

    assert budget.allows("a")
    assert budget.spent("a") == 0


def test_what_is_spent_counts_for_its_tenant_alone() -> None:
    budget = TenantBudget(1_000, Clock())

    budget.spend("a", 1_000)

    assert not budget.allows("a")
    assert budget.allows("b")


def test_the_last_question_may_go_over_the_limit() -> None:
    budget = TenantBudget(1_000, Clock())
    budget.spend("a", 999)

    assert budget.allows("a")
    budget.spend("a", 5_000)

    assert not budget.allows("a")


def test_within_an_hour_a_whole_budget_runs_off() -> None:
    clock = Clock()
    budget = TenantBudget(1_000, clock)
    budget.spend("a", 1_500)

    clock.now += HOUR_SECONDS / 2
    assert budget.spent("a") == 1_000
    clock.now += 1
    assert budget.allows("a")
    clock.now += HOUR_SECONDS
    assert budget.spent("a") == 0


def test_what_was_counted_too_much_is_taken_back_and_never_more() -> None:
    budget = TenantBudget(1_000, Clock())
    budget.spend("a", 900)

    budget.spend("a", -400)
    assert budget.spent("a") == 500
    budget.spend("a", -10_000)

    assert budget.spent("a") == 0
