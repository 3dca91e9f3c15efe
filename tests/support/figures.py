"""Figures of the metrics page, summed over the labels that a test does not name."""

import re

_SERIES = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def figure_in(page: str, wanted: str) -> float:
    """Return the sum of all series with this name that have at least these labels."""
    name, labels = _parted(wanted)
    found = [match for line in page.splitlines() if (match := _SERIES.fullmatch(line))]
    return sum(
        float(value)
        for series, others, value in (match.groups() for match in found)
        if series == name and labels <= set(_LABEL.findall(others or ""))
    )


def _parted(wanted: str) -> tuple[str, set[tuple[str, str]]]:
    name, _, labels = wanted.partition("{")
    return name, set(_LABEL.findall(labels))
