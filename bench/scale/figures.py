"""The figures of all rounds, and what they must show."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.scale.setups import Figure

MOST_SIDE_QUERIES = 1.1


@dataclass(frozen=True, slots=True)
class Scale:
    """One setup over all rounds: medians, compared with one process."""

    setup: str
    requests: int
    """In each round."""
    a_second: float
    times_one: float
    """Its throughput against that of one process, round by round."""
    cpu_ms: float
    """CPU time of each request, in all processes."""
    p50_ms: float
    side_queries: float
    """In each round."""
    side_queries_times_one: float
    errors: int

    @property
    def a_core(self) -> float:
        """Requests a second that one full core can serve."""
        return 1e3 / self.cpu_ms if self.cpu_ms else 0.0


def scales(figures: Sequence[Figure]) -> list[Scale]:
    """Return the setups in the order in which they were measured first; one process comes first."""
    names = list(dict.fromkeys(figure.setup for figure in figures))
    one = [figure for figure in figures if figure.setup == names[0]]
    return [_scale([it for it in figures if it.setup == name], one) for name in names]


def _scale(own: Sequence[Figure], one: Sequence[Figure]) -> Scale:
    rounds = list(zip(own, one, strict=True))
    return Scale(
        setup=own[0].setup,
        requests=own[0].requests,
        a_second=median(map(_rate, own)),
        times_one=median(_rate(it) / _rate(base) for it, base in rounds),
        cpu_ms=median(it.cpu_seconds / max(1, it.requests) * 1e3 for it in own),
        p50_ms=median(it.p50_ms for it in own),
        side_queries=median(it.side_queries for it in own),
        side_queries_times_one=_sum(own) / max(1, _sum(one)),
        errors=sum(sum(it.errors.values()) for it in own),
    )


def _rate(figure: Figure) -> float:
    return figure.requests / figure.seconds


def _sum(figures: Sequence[Figure]) -> int:
    return sum(figure.side_queries for figure in figures)


def verdicts(found: Sequence[Scale]) -> list[str]:
    """Return what was to be shown and whether it holds."""
    lines = []
    for scale in found[1:]:
        ratio = scale.side_queries_times_one
        mark = "holds:" if ratio <= MOST_SIDE_QUERIES else "**missed**:"
        lines.append(
            f"{mark} {scale.setup}: {ratio:.2f} x the side-queries of {found[0].setup} "
            f"(wanted: at most {MOST_SIDE_QUERIES})"
        )
    lost = sum(scale.errors for scale in found)
    mark = "**missed**:" if lost else "holds:"
    return [*lines, f"{mark} {lost} requests failed or were sent without their compaction"]
