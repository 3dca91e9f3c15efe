"""The page of a run."""

from collections.abc import Iterator, Mapping, Sequence

from bench.scale.figures import Scale, verdicts

INTRODUCTION = """\
# Workers and replicas

Written by `python -m bench.scale --write`, which keeps the figures in `bench/scale/results.json`;
`python -m bench.pages` writes the sizing tables of the other pages from them.

Agents' conversations grow by 6.5 KB with each request to about 240 KB, twice the window of 32,768
tokens, and are compacted several times on the way. Several are sent at once. The next request of a
conversation goes to another connection, and with replicas to another replica, as behind a load
balancer that knows no sessions. The model answers after 0.25 seconds, and writes a summary in 0.75.
Every setup gets the same texts and begins with an empty store: SQLite for the processes of one
machine, Redis for replicas. The setups are measured in turn.

**x one**: requests a second against one process in the same round. Load, model and proxies share
the machine, so that more processes than cores cannot be faster. **CPU**: of all processes
of the proxy, for each request; what one core can serve is computed from it. **side-queries**:
requests for summaries that the model got.
"""
_COLUMNS = (
    "setup",
    "requests",
    "requests a second",
    "x one",
    "CPU, ms",
    "a second on one core",
    "p50, ms",
    "side-queries",
    "x one",
)


def page(found: Sequence[Scale], facts: Mapping[str, str]) -> str:
    """Return the whole page."""
    return "\n".join([*_lines(found, facts), ""])


def _lines(found: Sequence[Scale], facts: Mapping[str, str]) -> Iterator[str]:
    yield INTRODUCTION
    yield "| run | |\n|---|---|"
    yield from (f"| {name} | {value} |" for name, value in facts.items())
    yield f"\n| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"
    yield from map(_row, found)
    yield ""
    yield from (f"* {line}" for line in verdicts(found))


def _row(scale: Scale) -> str:
    cells = (
        scale.setup,
        f"{scale.requests:,}",
        f"{scale.a_second:,.0f}",
        f"{scale.times_one:.2f}",
        f"{scale.cpu_ms:.2f}",
        f"{scale.a_core:,.0f}",
        f"{scale.p50_ms:.1f}",
        f"{scale.side_queries:,.0f}",
        f"{scale.side_queries_times_one:.2f}",
    )
    return f"| {' | '.join(cells)} |"
