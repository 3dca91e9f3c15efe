"""What a run saw, as a table for people and as JSON for machines."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.soak.growth import Sample, bytes_per_request, warm
from tools.soak.run import Outcome

ROWS = 12
_MEGABYTE = 1_000_000
_HEAD = (
    f"{'minute':>7}{'requests':>10}{'RSS MB':>8}{'fds':>6}{'tasks':>7}{'threads':>9}{'WAL MB':>8}"
)


def line_of(sample: Sample) -> str:
    """Return a sample as a row of the table."""
    return (
        f"{sample.seconds / 60:7.1f}{sample.requests:10,}{sample.rss_bytes / _MEGABYTE:8.1f}"
        f"{sample.fds:6}{sample.tasks:7}{sample.threads:9}{sample.wal_bytes / _MEGABYTE:8.2f}"
    )


def report(outcome: Outcome) -> str:
    """Return the whole table."""
    return "\n".join(_lines(outcome))


def write(outcome: Outcome, path: Path) -> None:
    """Keep the figures for machines."""
    path.write_text(json.dumps(_figures(outcome), indent=2) + "\n")


def _lines(outcome: Outcome) -> Iterator[str]:
    assert outcome.before
    assert outcome.after
    yield _HEAD
    yield line_of(outcome.before) + "  idle"
    yield from map(line_of, outcome.samples[:: 1 + len(outcome.samples) // ROWS])
    yield line_of(outcome.after) + "  idle"
    yield ""
    for name, value in _figures(outcome)["figures"].items():
        yield f"{name}: {value}"
    yield ""
    yield from (f"!! {complaint}" for complaint in outcome.complaints)
    yield "FAILED" if outcome.complaints else "passed"


def _figures(outcome: Outcome) -> dict[str, dict[str, Any]]:
    books = outcome.books
    steady = warm(outcome.samples)
    return {
        "figures": {
            "requests": books.sent,
            "by trouble": dict(books.by_trouble.most_common()),
            "by status": dict(books.logged.most_common()),
            "by code": dict(books.codes.most_common()),
            "compactions": dict(books.compactions.most_common()),
            "summaries asked for": outcome.model.summaries,
            "store faults": outcome.store_faults,
            "bytes per request after the warm-up": round(bytes_per_request(outcome.samples), 1),
            "requests after the warm-up": steady[-1].requests - steady[0].requests,
            "largest WAL in MB": max(it.wal_bytes for it in outcome.samples) / _MEGABYTE,
            "unaccounted requests": books.open_requests,
        },
        "complaints": {str(number): it for number, it in enumerate(outcome.complaints)},
        "samples": {str(round(it.seconds)): asdict(it) for it in outcome.samples},
    }
