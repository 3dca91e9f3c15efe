"""The command line."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from bench.servers import REPOSITORY
from bench.traffic import scenarios
from bench.traffic.scenarios import Scenario

ROUNDS, STARTS = 5, 3


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is to do."""

    names: list[str]
    rounds: int
    starts: int
    scenarios: tuple[Scenario, ...]
    json: Path | None


def read_options(own: list[str], peers: list[str]) -> Options:
    """Read the command line; peers take part when BENCH_PEERS=1 or when they are named."""
    parser = _parser([*own, *peers], peers)
    given = parser.parse_args()
    return Options(
        names=_names(given.only, own, peers, parser),
        rounds=given.rounds or (1 if given.quick else ROUNDS),
        starts=1 if given.quick else STARTS,
        scenarios=scenarios.shortened(scenarios.ALL) if given.quick else scenarios.ALL,
        json=given.json or _default_json(given),
    )


def _parser(known: list[str], peers: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure what chat-proxy costs beside nginx, a bare relay and its peers.",
        epilog=f"BENCH_PEERS=1 adds {', '.join(peers)}, installed under bench/.peers on first use.",
    )
    parser.add_argument("--rounds", type=_positive, metavar="N", help=f"default {ROUNDS}; quick: 1")
    parser.add_argument("--quick", action="store_true", help="smoke test: short bursts, one start")
    parser.add_argument("--only", metavar="NAME[,NAME]", help=f"some of: {', '.join(known)}")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="PATH",
        help="default bench/results.json; with --quick or --only nothing is kept without it",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _names(
    only: str | None, own: list[str], peers: list[str], parser: argparse.ArgumentParser
) -> list[str]:
    if only is None:
        with_peers = os.environ.get("BENCH_PEERS") == "1"  # noqa: TID251 (not the proxy's own)
        return [*own, *(peers if with_peers else [])]
    known = {_plain(name): name for name in [*own, *peers]}
    asked = [_plain(name) for name in only.split(",")]
    for name in asked:
        if name not in known:
            parser.error(f"unknown contender {name!r}; known: {', '.join(known)}")
    return [name for plain, name in known.items() if plain in asked]


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "-")


def _default_json(given: argparse.Namespace) -> Path | None:
    """Return where a full run keeps its results; a partial one must not replace them."""
    return None if given.quick or given.only else REPOSITORY / "bench/results.json"
