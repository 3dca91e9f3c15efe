"""`python -m bench.pages`: write the figures of `bench` and `bench.scale` into the pages."""

import sys
from pathlib import Path

import orjson

from bench.pages import relay, sizing
from bench.results import read
from bench.scale.__main__ import RESULTS as SCALE_RESULTS
from bench.scale.figures import scales
from bench.scale.setups import Figure
from bench.servers import REPOSITORY

RESULTS = REPOSITORY / "bench/results.json"


def main() -> int:
    """Write docs/benchmarks.md, docs/deploy.md and README.md anew; 2: figures are missing."""
    missing = [path for path in (RESULTS, SCALE_RESULTS) if not path.exists()]
    if missing:
        print(f"{missing[0]} is missing: run the benchmark with its figures first", file=sys.stderr)
        return 2
    write(REPOSITORY, RESULTS, SCALE_RESULTS)
    return 0


def write(folder: Path, results_file: Path, scale_file: Path) -> None:
    """Write the pages below a folder from these figures."""
    results = read(results_file)
    kept = orjson.loads(scale_file.read_bytes())
    scale = scales([Figure(**it) for it in kept["figures"]])
    blocks = {
        "docs/benchmarks.md": ("bench", relay.block(results)),
        "docs/deploy.md": ("sizing", sizing.block(results, scale, kept["facts"])),
    }
    for name, (mark, block) in blocks.items():
        page = folder / name
        page.write_text(marked(page.read_text(encoding="utf-8"), mark, block), encoding="utf-8")
    readme = folder / "README.md"
    readme.write_text(sizing.readme(readme.read_text(encoding="utf-8"), results), encoding="utf-8")


def marked(page: str, mark: str, block: str) -> str:
    """Return a page with another text between two marks."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- end {mark} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the marks of {mark} are missing")
    return f"{before}{begin}{block}{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
