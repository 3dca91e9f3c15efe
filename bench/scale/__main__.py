"""`python -m bench.scale`: one process, two workers and three replicas under growing chats."""

import argparse
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import orjson

from bench.machine import machine_facts
from bench.progress import tell
from bench.scale.figures import scales
from bench.scale.page import page
from bench.scale.setups import SETUPS, WINDOW, Figure, measure
from bench.servers import REPOSITORY
from chat_proxy import __version__

PAGE = REPOSITORY / "docs/bench/scale.md"
RESULTS = REPOSITORY / "bench/scale/results.json"
ROUNDS, CHATS, CONVERSATIONS = 3, 48, 2


def main() -> int:
    """Measure, print the page, and write it and the figures if asked to."""
    given = _options()
    facts = _facts(given.rounds, given.chats, given.conversations)
    figures = run(given.rounds, given.chats, given.conversations)
    written = page(scales(figures), facts)
    print(written)
    if given.write:
        PAGE.write_text(written, encoding="utf-8")
        kept = {"facts": facts, "figures": [asdict(figure) for figure in figures]}
        RESULTS.write_bytes(orjson.dumps(kept, option=orjson.OPT_INDENT_2) + b"\n")
    return 1 if any(figure.errors for figure in figures) else 0


def run(rounds: int, chats: int, conversations: int) -> list[Figure]:
    """Measure all setups in each round, each round beginning with another one."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        for number in range(rounds):
            first = number % len(SETUPS)
            for setup in SETUPS[first:] + SETUPS[:first]:
                tell(f"round {number + 1} of {rounds}: {setup.name}")
                found.append(measure(setup, chats, conversations, Path(folder)))
    tell("")
    names = [setup.name for setup in SETUPS]
    return sorted(found, key=lambda figure: names.index(figure.setup))


def _facts(rounds: int, chats: int, conversations: int) -> dict[str, str]:
    machine = machine_facts()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{machine['cores']} cores, {machine['processor']}, {machine['system']}",
        "load before": f"{machine['load_average_before']:.2f}",
        "python": machine["python"],
        "chat-proxy": __version__,
        "window": f"{WINDOW:,}",
        "load": f"{rounds} rounds of {chats} chats at once, {conversations} one after the other",
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    parser.add_argument("--chats", type=int, default=CHATS, help=f"at once (default {CHATS})")
    parser.add_argument(
        "--conversations",
        type=int,
        default=CONVERSATIONS,
        help=f"one after the other, in each chat (default {CONVERSATIONS})",
    )
    parser.add_argument("--write", action="store_true", help="write docs/bench/scale.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
