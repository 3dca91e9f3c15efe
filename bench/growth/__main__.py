"""`python -m bench.growth`: what a request costs as histories and the store grow."""

import sys
import tempfile
from pathlib import Path

from bench.chart import Chart
from bench.growth import alignment, checkpoints, histories, originals
from bench.machine import machine_facts
from bench.progress import tell
from bench.servers import REPOSITORY

DOCS = REPOSITORY / "docs/bench"
MOST_RATIO = 2.0


def main() -> int:
    """Measure, write the plots and the page; 1 says that a lookup does not keep its promise."""
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        lookups = checkpoints.measure(Path(folder))
        beside = originals.measure(Path(folder))
        requests = histories.measure(Path(folder))
    alike = alignment.measure()
    tell("")
    DOCS.mkdir(parents=True, exist_ok=True)
    (DOCS / "history.svg").write_text(_history_chart(requests).svg(), encoding="utf-8")
    (DOCS / "checkpoints.svg").write_text(_checkpoint_chart(lookups).svg(), encoding="utf-8")
    page = _page(requests, lookups, beside, alike)
    (DOCS / "growth.md").write_text(page, encoding="utf-8")
    print(page)
    return 0 if lookups[checkpoints.SIZES[-1]] <= MOST_RATIO * lookups[checkpoints.SIZES[0]] else 1


def _history_chart(requests: dict[str, dict[int, float]]) -> Chart:
    return Chart(
        "CPU per request of a conversation that grows",
        "messages in the request",
        "µs",
        {f"mode {mode}": sorted(costs.items()) for mode, costs in requests.items()},
    )


def _checkpoint_chart(lookups: dict[int, float]) -> Chart:
    line = {f"lookup of {checkpoints.SEAMS} seams": sorted(lookups.items())}
    return Chart("CPU of a lookup as the store fills", "checkpoints in the store", "µs", line)


def _page(
    requests: dict[str, dict[int, float]],
    lookups: dict[int, float],
    beside: dict[int, float],
    alike: dict[int, alignment.Cost],
) -> str:
    facts = machine_facts()
    lines = [
        "# What a request costs as things grow",
        "",
        f"Written by `python -m bench.growth` on {facts['date'][:10]}, {facts['processor']},",
        f"Python {facts['python']}. CPU of the whole proxy process, best of {histories.ROUNDS}",
        f"rounds; lookups best of {checkpoints.ROUNDS}.",
        "",
        "![history](history.svg)",
        "",
        "| messages | mode off, µs | mode on, µs | ratio | µs per message |",
        "|---|---|---|---|---|",
    ]
    for length in histories.LENGTHS:
        off, on = requests["off"][length], requests["on"][length]
        lines.append(
            f"| {length:,} | {off:,.0f} | {on:,.0f} | {on / off:.1f} | {on / length:.2f} |"
        )
    lines += [
        "",
        "![checkpoints](checkpoints.svg)",
        "",
        "| checkpoints | µs | to 10 |",
        "|---|---|---|",
    ]
    first = lookups[checkpoints.SIZES[0]]
    lines += [f"| {size:,} | {cost:,.0f} | {cost / first:.2f} |" for size, cost in lookups.items()]
    lines += ["", *_originals_table(beside)]
    lines += [
        "",
        "A history that its client has changed is found by its anchors and aligned with what the",
        "checkpoint covers, in memory, after it was hashed:",
        "",
        "| messages | hash all, µs | anchors and alignment, µs |",
        "|---|---|---|",
    ]
    lines += [
        f"| {length:,} | {cost.hashing:,.0f} | {cost.aligning:,.0f} |"
        for length, cost in alike.items()
    ]
    return "\n".join([*lines, ""])


def _originals_table(beside: dict[int, float]) -> list[str]:
    return [
        "The same file holds the originals of folded messages. Two lookups of",
        f"{originals.KEYS:,} keys that are not there, beside originals of",
        f"{originals.ORIGINAL_BYTES / 1e6:.1f} MB, best of {originals.ROUNDS}:",
        "",
        "| originals | ms |",
        "|---|---|",
        *(f"| {count:,} | {cost:.1f} |" for count, cost in beside.items()),
    ]


if __name__ == "__main__":
    sys.exit(main())
