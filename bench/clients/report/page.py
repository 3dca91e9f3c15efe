"""The page, its table and its plot."""

from collections.abc import Iterator, Mapping, Sequence

from bench.clients.catalogue import BEHAVIOURS, MOST_COST, Behaviour
from bench.clients.costs import Row
from bench.clients.report.bars import Bars, Panel, svg
from bench.clients.report.before import Figures

_COLUMNS = (
    "what the client does",
    "changes",
    "requests",
    "side-queries per request, before",
    "now",
    "goal",
    "cost, before",
    "now",
    "goal",
    "unavoidable",
    "no proxy, no limit",
)
_MOST_SIDE_QUERIES_SHOWN = 1.0
_MOST_COST_SHOWN = 6.0
_INTRODUCTION = """\
# What clients cost that do not only append

Written by `python -m bench.clients --write --seed {seed}` (`--quick` for half of each history,
`--only NAME` for some rows).

Two made-up histories are sent request by request, as each client would send them: a chat of 60
turns, in a window of its system prompt and 12,000 tokens, and a coding agent's run of 54 requests
and nine turns, in a window of its system prompt, its tools and 24,000 tokens. Each client has a
proxy of its own with default settings (but `VISION_TRUNCATE_HISTORY=false`) in front of a scripted
model that refuses what is longer than its window and writes summaries of at most 700 tokens.

* **changes**: where the prompt, as the model reads it, differs from what the client sent before:
  at the front at each request or now and then, in the middle, at the end only, or nowhere.
* **side-queries per request**: requests of the proxy itself, for summaries.
* **cost**: tokens that are billed, side-queries with what they write included, as a multiple of
  what the append-only client of the same kind is billed at the same points of its history. A token
  is read at 1, and at 0.1 from a prefix cache with blocks of 16 tokens and no end.
* **unavoidable**: what the append-only client's own prompts would cost with the same change in
  them. A client that changes the front of its prompt loses the upstream's cache whatever a proxy
  does.
* **no proxy, no limit**: what the same client would cost without a proxy, in a window without end.
* **goal**: at most 0.15 side-queries per request (0.2 for sliding windows), and a cost of at most
  1.3; where what is unavoidable alone is over 1.3, at most 1.3 times that. This is so wherever the
  front changes, and for environment details that change in the newest user message while a turn of
  many steps goes on behind it.
* **before**: the same with decisions found again by the exact messages only. Figures that miss
  their goal are bold.
"""


def page(rows: Sequence[Row], before: Mapping[str, Figures], seed: int) -> str:
    """Return the page."""
    lines = [_INTRODUCTION.format(seed=seed), *table(rows, before), "", "![clients](clients.svg)"]
    return "\n".join([*lines, "", "## Verdict", "", *verdict(rows), ""])


def table(rows: Sequence[Row], before: Mapping[str, Figures]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| {' | '.join(_COLUMNS)} |"
    yield f"|{'---|' * len(_COLUMNS)}"
    for it in rows:
        yield f"| {' | '.join(_cells(it, before.get(it.name)))} |"


def _cells(it: Row, before: Figures | None) -> Iterator[str]:
    most_queries, most = behaviour_of(it).most_side_queries, most_cost(it)
    yield it.name
    yield behaviour_of(it).changes
    yield f"{it.requests}"
    yield "" if before is None else f"{before[0]:.2f}"
    yield _marked(f"{it.side_queries:.2f}", it.side_queries > most_queries)
    yield f"≤ {most_queries}"
    yield "" if before is None else f"{before[1]:.2f}"
    yield _marked(f"{it.cost:.2f}", it.cost > most)
    yield f"≤ {most:.2f}"
    yield "" if it.unavoidable is None else f"{it.unavoidable:.2f}"
    yield f"{it.no_proxy:.2f}"


def plot(rows: Sequence[Row], before: Mapping[str, Figures]) -> str:
    """Return both figures of each behaviour, before and now."""
    old = [before.get(it.name, (None, None)) for it in rows]
    queries = [
        Bars(was[0], it.side_queries, behaviour_of(it).most_side_queries)
        for it, was in zip(rows, old, strict=True)
    ]
    costs = [Bars(was[1], it.cost, most_cost(it)) for it, was in zip(rows, old, strict=True)]
    panels = [
        Panel("side-queries per request", _MOST_SIDE_QUERIES_SHOWN, queries),
        Panel("cost, append-only client = 1", _MOST_COST_SHOWN, costs),
    ]
    return svg([it.name for it in rows], panels)


def verdict(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each promise that is not kept, or one that all are."""
    missed = failures(rows)
    yield from (f"* **missed**: {sentence}" for sentence in missed)
    if not missed:
        yield "* Every goal is met."
    if not any(it.unanswered for it in rows):
        yield "* Every request was answered with 200."
    if not any(it.broken_pairs for it in rows):
        yield "* No tool call lost its result, and no result its call."
    if refused := sum(it.refused for it in rows):
        yield f"* {refused} prompts were longer than the window, and were sent again shorter."
    if not any(it.unstable for it in rows):
        yield (
            "* Wherever a client only appended and nothing was compacted, the prompt began with "
            "the one before."
        )


def failures(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each promise that a row does not keep."""
    return [sentence for it in rows for sentence in _failures(it)]


def _failures(it: Row) -> Iterator[str]:
    most = behaviour_of(it).most_side_queries
    if it.side_queries > most:
        yield f"{it.name}: {it.side_queries:.2f} side-queries per request, at most {most} wanted"
    if it.cost > most_cost(it):
        yield f"{it.name}: costs {it.cost:.2f}, at most {most_cost(it):.2f} wanted"
    if it.unanswered:
        yield f"{it.name}: {it.unanswered} requests were not answered with 200"
    if it.broken_pairs:
        yield f"{it.name}: {it.broken_pairs} calls without result or results without call"
    if it.unstable:
        yield f"{it.name}: {it.unstable} prompts changed without a compaction"


def most_cost(it: Row) -> float:
    """Return the largest cost that keeps the promise: where it cannot, beside what must be paid."""
    unavoidable = it.unavoidable or 1.0
    return MOST_COST * unavoidable if unavoidable > MOST_COST else MOST_COST


def behaviour_of(it: Row) -> Behaviour:
    """Return the behaviour that a row is about."""
    return next(behaviour for behaviour in BEHAVIOURS if behaviour.name == it.name)


def _marked(figure: str, is_bad: bool) -> str:
    return f"**{figure}**" if is_bad else figure
