"""`make counts`: how far estimates are from the tokens of real vocabularies, by kind of text."""

import argparse
import json
import sys
from typing import Final

from tools.counts.chats import EACH, LEARNING
from tools.counts.install import NotInstalled, install, simulate
from tools.counts.report import Found, misses_of, page, table_of
from tools.counts.texts import POOLS
from tools.engine.install import ROOT

PAGE: Final = ROOT / "docs" / "bench" / "counts.md"
SIX: Final = ("qwen", "llama3", "llama4", "tekken", "deepseek", "cl100k")
OTHERS: Final = ("qwen3.5", "smollm", "sentencepiece", "glm", "kimi", "gemma")


def main() -> int:
    """Simulate, print the table, and write the page if that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tools.counts", description=__doc__)
    parser.add_argument("--vocabularies", nargs="+", choices=(*SIX, *OTHERS), default=SIX)
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--pool", choices=POOLS, default="held-out")
    parser.add_argument("--write", action="store_true", help="write docs/bench/counts.md")
    chosen = parser.parse_args()
    try:
        install()
    except NotInstalled as error:
        print(error, file=sys.stderr)
        return 2
    common = ("--orders", str(chosen.orders), "--pool", chosen.pool)
    named = found_by(*common, "--vocabularies", *chosen.vocabularies)
    print("\n".join(table_of(named)))
    if chosen.write:
        sections = {
            "Six vocabularies": named,
            "Others": found_by("--orders", "40", "--vocabularies", *OTHERS),
            "The six, with a name that tells nothing": found_by(
                "--orders", "40", "--unnamed", "--vocabularies", *SIX
            ),
        }
        PAGE.write_text(page(sections, chosen.orders, EACH, LEARNING))
    return 1 if misses_of(named) else 0


def found_by(*arguments: str) -> Found:
    """Return what a simulation found."""
    found: Found = json.loads(simulate(*arguments))
    return found


if __name__ == "__main__":
    sys.exit(main())
