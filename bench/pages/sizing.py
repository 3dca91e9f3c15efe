"""What one core and several processes can serve: the tables of docs/deploy.md, rows of README."""

import re
from collections.abc import Iterator, Mapping, Sequence

from bench.contenders import CHAT_PROXY
from bench.pages.relay import part
from bench.peers.litellm import LITELLM
from bench.results import Results
from bench.scale.figures import Scale
from bench.traffic.scenarios import LARGE, SMALL, STREAM, Scenario

CHUNKS_A_SECOND = 50
CHUNKS = 100
_ROWS: Mapping[Scenario, str] = {
    SMALL: "small requests, every text new",
    LARGE: "120 KB requests that continue earlier ones",
    STREAM: "streams of 100 chunks",
}
_COLUMNS = (
    "agents beyond the window",
    "requests a second",
    "x one process",
    "side-queries, x one process",
)
_README_COST = re.compile(
    r"(\| CPU time of a small request, 16 connections \| )[\d,]+( µs, )an? \w+( of LiteLLM)"
)
_README_MEMORY = re.compile(r"(\| idle memory \| )[\d,]+( MB \|)")


def block(results: Results, scale: Sequence[Scale], measured: Mapping[str, str]) -> str:
    """Return what stands between the marks of docs/deploy.md."""
    return "\n".join([*_lines(results, scale, measured), ""])


def readme(text: str, results: Results) -> str:
    """Return README with the cost of a small request and the idle memory of these results."""
    cost, entry = results.cpu(CHAT_PROXY, SMALL), results.entry(CHAT_PROXY)
    if cost is None or entry is None:
        raise ValueError("the results have no figures of chat-proxy")
    share = part(results.ratio(LITELLM, CHAT_PROXY, SMALL))
    text = _README_COST.sub(rf"\g<1>{cost:,.0f}\g<2>{share}\g<3>", text)
    return _README_MEMORY.sub(rf"\g<1>{entry.idle_bytes / 1e6:,.0f}\g<2>", text)


def _lines(results: Results, scale: Sequence[Scale], measured: Mapping[str, str]) -> Iterator[str]:
    facts = results.facts
    yield (
        "One process uses one core. The throughput is computed from the CPU time per request in\n"
        f"[Benchmarks](benchmarks.md) (16 connections), measured on {facts['date'][:10]} on "
        f"{facts['cores']} shared cores ({facts['processor']}),\n"
        f"and in [Workers and replicas](bench/scale.md), measured on {measured['date']}. "
        "The autoscaler aims at\nhalf a core."
    )
    yield "\n| | CPU each, measured | one full core, computed | half a core, computed |"
    yield "|---|---|---|---|"
    for scenario, label in _ROWS.items():
        cost = results.cpu(CHAT_PROXY, scenario)
        if cost is not None:
            at_once = _at_once(cost) if scenario is STREAM else ""
            yield f"{_row(label, cost)}{at_once} |"
    yield f"{_row('requests of agents beyond the window, compacted', scale[0].cpu_ms * 1e3)} |"
    yield f"\n| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"
    for it in scale:
        ratios = f"{it.times_one:.2f} | {it.side_queries_times_one:.2f}"
        yield f"| {it.setup} | {it.a_second:,.0f} | {ratios} |"
    entry = results.entry(CHAT_PROXY)
    if entry is not None:
        yield "\n| memory of one process | MB | |\n|---|---|---|"
        yield f"| idle | {entry.idle_bytes / 1e6:,.0f} | measured |"
        yield f"| after the benchmark | {entry.loaded_bytes / 1e6:,.0f} | measured |"


def _row(label: str, cost: float) -> str:
    """Return the cost as it is shown, and what is computed from it."""
    shown = round(cost)
    return (
        f"| {label} | {shown:,} µs | {_rate(1e6 / shown)} a second | {_rate(5e5 / shown)} a second"
    )


def _rate(value: float) -> str:
    """Return three digits of a number."""
    digits = max(0, len(str(int(value))) - 3)
    return f"{round(value, -digits):,.0f}" if value >= 100 else f"{value:.3g}"


def _at_once(cost: float) -> str:
    streams = 5e5 / round(cost) * CHUNKS / CHUNKS_A_SECOND
    return f": {_rate(streams)} at once, at {CHUNKS_A_SECOND} chunks a second each"
