"""What a run found: the figures of every burst, and the questions one asks of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from bench.traffic.load import Outcome
from bench.traffic.scenarios import ALONE, Scenario

DIRECT = "direct"

Average = Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One burst: what its contender spent, and what the load generator saw."""

    contender: str
    scenario: str
    round: int
    cpu_us_per_request: float
    outcome: Outcome


@dataclass(slots=True)
class Entry:
    """A contender of this run: how long it took to get ready, and its memory."""

    name: str
    version: str
    ready_seconds: list[float] = field(default_factory=list)
    idle_bytes: int = 0
    loaded_bytes: int = 0
    unavailable: str | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """Everything a run found."""

    facts: dict[str, Any]
    entries: list[Entry]
    figures: list[Figure]

    def entry(self, contender: str) -> Entry | None:
        """Return a contender that took part."""
        return next((e for e in self.entries if e.name == contender and not e.unavailable), None)

    def cpu(self, contender: str, scenario: Scenario, of: Average = median) -> float | None:
        """Return the CPU per request in µs: the median of the rounds, or what else is asked."""
        values = [f.cpu_us_per_request for f in self._sound(contender, scenario)]
        return of(values) if values else None

    def rate(self, contender: str, scenario: Scenario) -> float | None:
        """Return the requests answered per second, the median of the rounds."""
        outcomes = [f.outcome for f in self._sound(contender, scenario)]
        return median(o.requests / o.seconds for o in outcomes) if outcomes else None

    def added_latency(self, contender: str, percentile: str, of: Average = median) -> float | None:
        """Return what a contender adds to a lone request in µs, each round against its own."""
        direct = {f.round: f.outcome for f in self._sound(DIRECT, ALONE)}
        values = [
            getattr(f.outcome, percentile) - getattr(direct[f.round], percentile)
            for f in self._sound(contender, ALONE)
            if f.round in direct
        ]
        return of(values) if values else None

    def ratio(self, one: str, other: str, scenario: Scenario) -> float | None:
        """Return how many times the CPU of another a contender needs."""
        ours, theirs = self.cpu(one, scenario), self.cpu(other, scenario)
        return ours / theirs if ours and theirs else None

    def complaints(self) -> list[str]:
        """Return a line for every kind of error in every burst."""
        return [
            f"{f.contender}, {f.scenario}, round {f.round}: {count} times: {error}"
            for f in self.figures
            for error, count in f.outcome.errors.items()
        ]

    def _sound(self, contender: str, scenario: Scenario) -> list[Figure]:
        return [
            figure
            for figure in self.figures
            if (figure.contender, figure.scenario) == (contender, scenario.name)
            and not figure.outcome.errors
        ]


def read(path: Path) -> Results:
    """Return the results that a run has kept."""
    kept = orjson.loads(path.read_bytes())
    figures = [Figure(**{**it, "outcome": Outcome(**it["outcome"])}) for it in kept["figures"]]
    return Results(kept["facts"], [Entry(**it) for it in kept["entries"]], figures)
