"""The figures before histories were recognised by what they say: kept, so that both are shown."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from bench.clients.costs import Row

FILE = Path(__file__).parent / "before.json"

Figures = tuple[float, float]
"""Side-queries per request, and cost."""


def load(file: Path = FILE) -> Mapping[str, Figures]:
    """Return the figures by behaviour."""
    if not file.exists():
        return {}
    return {
        name: (figures[0], figures[1]) for name, figures in orjson.loads(file.read_bytes()).items()
    }


def save(rows: Sequence[Row], file: Path = FILE) -> None:
    """Keep these rows as those before."""
    figures = {row.name: (row.side_queries, row.cost) for row in rows}
    file.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
