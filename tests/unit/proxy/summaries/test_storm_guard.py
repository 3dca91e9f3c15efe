"""The guard against summaries that are bought again and again because none is found again."""

from chat_proxy.proxy.summaries.storm_guard import LEAST_REUSED, REQUESTS, StormGuard
from chat_proxy.telemetry.metrics import Metrics

MODEL = "fake"


def served(guard: StormGuard, times: int, summaries: int = 0, *, reuses: bool = False) -> int:
    """Let so many requests come, each of which wants summaries; return how many are started."""
    started = 0
    for _ in range(times):
        guard.saw_request("alice", MODEL, reuses=reuses)
        for _ in range(summaries):
            if guard.allows("alice", MODEL):
                guard.started("alice", MODEL)
                started += 1
    return started


def test_one_summary_for_four_requests_is_no_storm() -> None:
    guard = StormGuard(Metrics(), 0.25)

    assert sum(served(guard, 3) + served(guard, 1, 1) for _ in range(30)) == 30
    assert guard.allows("alice", MODEL)


def test_a_summary_with_every_request_is_a_storm_after_forty() -> None:
    metrics = Metrics()
    guard = StormGuard(metrics, 0.25)

    assert served(guard, 54, 1) == REQUESTS
    assert not guard.allows("alice", MODEL)
    assert guard.storm_count() == 1
    assert metrics.summary_storms._value.get() == 1


def test_a_storm_of_one_tenant_or_model_is_not_anothers() -> None:
    guard = StormGuard(Metrics(), 0.25)
    served(guard, 54, 1)

    assert guard.allows("bob", MODEL)
    assert guard.allows("alice", "other")


def test_it_ends_when_earlier_decisions_are_found_again() -> None:
    guard = StormGuard(Metrics(), 0.25)
    served(guard, 54, 1)

    served(guard, LEAST_REUSED - 1, reuses=True)
    assert not guard.allows("alice", MODEL)
    served(guard, 1, reuses=True)
    assert guard.allows("alice", MODEL)
    assert served(guard, 4, 1) == 4


def test_it_does_not_end_by_itself() -> None:
    guard = StormGuard(Metrics(), 0.25)
    served(guard, 54, 1)

    served(guard, 200)

    assert not guard.allows("alice", MODEL)


def test_a_maximum_of_one_disables_it() -> None:
    guard = StormGuard(Metrics(), 1)

    assert served(guard, 200, 2) == 400
