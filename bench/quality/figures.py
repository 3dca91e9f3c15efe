"""The figures of one system over all sessions of a group, in one window."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.quality.bill import Bill
from bench.quality.replay import POINTS, Outcome
from bench.quality.systems import (
    DEFAULT_THRESHOLD,
    DROP_OLDEST,
    ENDLESS,
    OWN,
    THRESHOLDS,
    threshold_name,
)

OTHER_THRESHOLDS = tuple(map(threshold_name, THRESHOLDS))
LEAST_RATIO = 1.5
MOST_COST = 1.1


@dataclass(frozen=True)
class Figures:
    """The sums of a system's outcomes."""

    system: str
    outcomes: Sequence[Outcome]

    def known(self, point: int = -1) -> float:
        """Return the share of questions at a point whose evidence is known by its key terms."""
        asked = [outcome.asked[point] for outcome in self.outcomes]
        return sum(it.known for it in asked) / max(1, sum(it.questions for it in asked))

    @property
    def mean_known(self) -> float:
        """The mean of that share over the points."""
        return sum(self.known(point) for point in range(len(POINTS))) / len(POINTS)

    @property
    def verbatim(self) -> float:
        """The share of questions at the end whose evidence is known word for word."""
        asked = [outcome.asked[-1] for outcome in self.outcomes]
        return sum(it.verbatim for it in asked) / max(1, sum(it.questions for it in asked))

    @property
    def requests(self) -> int:
        """How many requests the sessions have."""
        return sum(it.requests for it in self.outcomes)

    @property
    def refused(self) -> int:
        """How many of them got no answer."""
        return sum(it.refused for it in self.outcomes)

    @property
    def refusals(self) -> str:
        """What the refused requests got, with how many of them."""
        counts = sum((Counter(it.refusals) for it in self.outcomes), Counter())
        return ", ".join(f"{count} x {reason}" for reason, count in counts.items()) or "unknown"

    @property
    def waited(self) -> int:
        """How many of them waited for a summary."""
        return sum(it.waited for it in self.outcomes)

    @property
    def side_queries(self) -> int:
        """How many side-queries were answered."""
        return sum(it.side_queries for it in self.outcomes)

    @property
    def orphans(self) -> int:
        """How many calls or results were sent without the other."""
        return sum(it.orphans for it in self.outcomes)

    @property
    def answered(self) -> int:
        """How many requests were answered, at least one: figures are divided by it."""
        return max(1, self.requests - self.refused)

    @property
    def bill(self) -> Bill:
        """The parts of the bill for each answered request, and the breaks of all."""
        bills = [it.bill for it in self.outcomes]
        return Bill(
            fresh=sum(it.fresh for it in bills) / self.answered,
            again=sum(it.again for it in bills) / self.answered,
            rewritten=sum(it.rewritten for it in bills) / self.answered,
            asides=sum(it.asides for it in bills) / self.answered,
            breaks=sum(it.breaks for it in bills),
        )

    @property
    def tokens(self) -> float:
        """Tokens read and written by side-queries, for each answered request."""
        return sum(it.tokens for it in self.outcomes) / self.answered

    @property
    def billed(self) -> float:
        """The same, with what a prefix cache serves at a tenth."""
        return sum(it.billed for it in self.outcomes) / self.answered


@dataclass(frozen=True)
class Group:
    """All systems with the same sessions in one window."""

    name: str
    window: int
    figures: dict[str, Figures]

    @property
    def questions(self) -> int:
        """How many questions are asked at the end."""
        outcomes = next(iter(self.figures.values())).outcomes
        return sum(it.asked[-1].questions for it in outcomes)

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return len(next(iter(self.figures.values())).outcomes)

    @property
    def base(self) -> Figures:
        """What is compared with: dropping the oldest messages."""
        return self.figures[DROP_OLDEST]

    @property
    def others(self) -> list[Figures]:
        """The systems that are not ours and have the same window."""
        own = (*OWN, *OTHER_THRESHOLDS, ENDLESS)
        return [it for name, it in self.figures.items() if name not in own]

    @property
    def compared(self) -> list[Figures]:
        """The systems of the table, without other thresholds."""
        return [it for name, it in self.figures.items() if name not in OTHER_THRESHOLDS]

    @property
    def thresholds(self) -> dict[float, Figures]:
        """Chat-proxy by its threshold, in order; empty if only the default was measured."""
        shares = sorted((*THRESHOLDS, DEFAULT_THRESHOLD))
        found = {it: threshold_name(it) for it in shares if threshold_name(it) in self.figures}
        return {it: self.figures[name] for it, name in found.items()} if len(found) > 1 else {}

    def cheapest(self) -> Figures | None:
        """Return who of the others bills least and refuses nothing."""
        answering = [it for it in self.others if not it.refused]
        return min(answering, key=lambda it: it.billed, default=None)


def groups_of(outcomes: Sequence[Outcome]) -> list[Group]:
    """Return the outcomes by group and window, in the order in which they come.

    A system that did not replay all sessions of its group is left out: it cannot be compared.
    """
    keys = dict.fromkeys((it.group, it.window) for it in outcomes)
    return [_group(name, window, outcomes) for name, window in keys]


def _group(name: str, window: int, outcomes: Sequence[Outcome]) -> Group:
    own = [it for it in outcomes if (it.group, it.window) == (name, window)]
    systems = dict.fromkeys(it.system for it in own)
    figures = [Figures(system, [it for it in own if it.system == system]) for system in systems]
    most = max(len(it.outcomes) for it in figures)
    return Group(name, window, {it.system: it for it in figures if len(it.outcomes) == most})


def verdicts(group: Group) -> list[str]:
    """Return what was to be shown and whether it holds, for each of our systems."""
    return [line for name in OWN if name in group.figures for line in _verdicts(name, group)]


def _verdicts(name: str, group: Group) -> list[str]:
    own, base = group.figures[name], group.base
    best = max(group.others, key=Figures.known)
    most = _most(base)
    of_base = own.known() * most
    lines = [
        (
            f"{_mark(of_base >= LEAST_RATIO)} {name} keeps {of_base:.2f} x what dropping the "
            f"oldest keeps (wanted: {LEAST_RATIO}; everything would be {most:.2f})"
        ),
        (
            f"{_mark(own.known() >= best.known())} {name} keeps {own.known():.1%}, the best of "
            f"the others ({best.system}) {best.known():.1%}"
        ),
    ]
    if cheapest := group.cheapest():
        ratio = own.billed / cheapest.billed
        lines.append(
            f"{_mark(ratio <= MOST_COST)} {name} bills {ratio:.2f} x the cheapest that refuses "
            f"nothing ({cheapest.system}; wanted: {MOST_COST})"
        )
    if own.refused:
        lines.append(f"**missed**: {name} did not answer {own.refused} requests: {own.refusals}")
    return lines


def _mark(holds: bool) -> str:
    return "holds:" if holds else "**missed**:"


def holds_both(figures: Figures, group: Group) -> bool:
    """Return whether a system keeps enough and costs little enough at the same time."""
    cheapest = group.cheapest()
    is_cheap = cheapest is not None and figures.billed <= MOST_COST * cheapest.billed
    return is_cheap and figures.known() * _most(group.base) >= LEAST_RATIO


def _most(base: Figures) -> float:
    """Return how many times as much everything would be."""
    return 1 / base.known() if base.known() else float("inf")
