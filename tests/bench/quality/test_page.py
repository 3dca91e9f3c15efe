import pytest

from bench.quality.bill import Bill
from bench.quality.figures import groups_of, verdicts
from bench.quality.replay import POINTS, Asked, Outcome
from bench.quality.report import charts, page
from bench.quality.systems import (
    CHAT_PROXY,
    DROP_OLDEST,
    ENDLESS,
    OWN_SUMMARY,
    systems,
    threshold_name,
    with_thresholds,
)


def test_shares_are_over_all_questions_of_all_sessions() -> None:
    (group,) = groups_of(
        [_outcome(CHAT_PROXY, Asked(30, 15, 3)), _outcome(CHAT_PROXY, Asked(10, 5, 1))]
    )
    figures = group.figures[CHAT_PROXY]

    assert figures.known() == figures.mean_known == 0.5
    assert figures.verbatim == 0.1


def test_costs_are_for_each_answered_request() -> None:
    outcome = _outcome(CHAT_PROXY, Asked(1, 1, 1))
    outcome.refused, outcome.tokens, outcome.billed = 6, 800, 80.0

    (group,) = groups_of([outcome])

    assert group.figures[CHAT_PROXY].tokens == 200
    assert group.figures[CHAT_PROXY].billed == 20


def test_the_page_has_a_row_for_each_system_and_says_what_holds() -> None:
    written = page(_three(), {"date": "today"}, {"headroom": "no wheel"})

    assert "## Dialogues, window 8,192" in written
    assert "| **chat-proxy** | 60.0% | 1.50 | 60.0% | 1.50 |" in written
    assert "| drop oldest | 40.0% | 1.00 |" in written
    assert "* holds: chat-proxy keeps 1.50 x what dropping the oldest keeps" in written
    assert "everything would be 2.50" in written
    assert "**headroom could not run here**: `no wheel`" in written
    assert "| date | today |" in written


def test_what_is_missed_is_said() -> None:
    outcomes = _three()
    outcomes[2].billed = 500.0

    (group,) = groups_of(outcomes)

    assert group.cheapest() is group.figures[OWN_SUMMARY]
    assert sum(line.startswith("**missed**") for line in verdicts(group)) == 1


def test_who_refuses_is_not_the_cheapest() -> None:
    outcomes = _three()
    outcomes[1].refused = 1

    (group,) = groups_of(outcomes)

    assert group.cheapest() is group.figures[DROP_OLDEST]


def test_the_parts_of_a_bill_are_shown_for_those_who_refuse_nothing() -> None:
    outcomes = _three()
    outcomes[1].refused = 1
    outcomes[2].bill = Bill(fresh=300, again=500, rewritten=100, asides=100, breaks=3)

    written = page(outcomes, {}, {})

    assert "| chat-proxy | 30 | 50 | 10 | 10 | 100 | 3 |" in written
    assert f"| {OWN_SUMMARY} | 0 | 0 |" not in written


def test_what_we_refused_is_said_with_its_code() -> None:
    outcomes = _three()
    outcomes[2].refused, outcomes[2].refusals = 2, {"502 upstream_unreachable": 2}

    (group,) = groups_of(outcomes)

    line = "**missed**: chat-proxy did not answer 2 requests: 2 x 502 upstream_unreachable"
    assert line in verdicts(group)


def test_calls_without_results_are_counted() -> None:
    outcomes = _three()
    outcomes[2].orphans = 7

    assert "| 0 of 10 | 7 | 0 |" in page(outcomes, {}, {})


def test_other_thresholds_are_compared_with_the_cheapest_and_with_dropping() -> None:
    cheap = _outcome(threshold_name(0.5), Asked(10, 5, 0))
    cheap.billed = 60.0

    written = page([*_three(), cheap], {}, {})

    assert "| 0.5 | 50.0% | 1.25 | 50.0% | 0 | 6 | 0.60 |" in written
    assert "| 0.8 | 60.0% | 1.50 | 60.0% | 0 | 10 | 1.00 |" in written
    assert "Thresholds that hold both: 0.8." in written
    assert "threshold 0.5 keeps" not in written


def test_without_other_thresholds_there_is_no_trade() -> None:
    assert "What the threshold trades" not in page(_three(), {}, {})


def test_there_is_a_plot_for_each_group_without_the_endless_window() -> None:
    outcomes = [*_three(), _outcome(ENDLESS, Asked(10, 10, 10))]

    (name,), (chart,) = zip(*charts(outcomes).items(), strict=True)

    assert name == "quality-dialogues-8192"
    assert list(chart.lines) == [DROP_OLDEST, OWN_SUMMARY, CHAT_PROXY]
    assert chart.lines[CHAT_PROXY][-1] == pytest.approx((100, 60))
    assert chart.svg().count("<polyline") == 3


def test_systems_have_names_of_their_own() -> None:
    names = [system.name for system in (*systems(), *with_thresholds())]

    assert len(names) == len(set(names))


def _three() -> list[Outcome]:
    known = {DROP_OLDEST: 4, OWN_SUMMARY: 5, CHAT_PROXY: 6}
    return [_outcome(name, Asked(10, number, 0)) for name, number in known.items()]


def _outcome(system: str, asked: Asked) -> Outcome:
    outcome = Outcome("dialogues", "one", 8_192, system, requests=10, asked=[asked] * len(POINTS))
    outcome.tokens, outcome.billed = 1_000, 900.0 if system == DROP_OLDEST else 100.0
    return outcome
