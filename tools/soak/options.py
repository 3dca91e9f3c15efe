"""How long and how hard the soak is."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """What one run is to be."""

    minutes: float = 10
    clients: int = 12
    pause_seconds: float = 0.1
    """The longest time that a client thinks between two requests."""
    abort_share: float = 0.2
    fault_share: float = 0.05
    store_fault_share: float = 0.01
    first_requests: int = 400
    """After so many, every thread and file that is opened late is open."""
    every_seconds: float = 2
    """How often the proxy is measured."""
    seed: int = 1
    json: Path | None = None

    @property
    def seconds(self) -> float:
        return self.minutes * 60


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Return what the command line asks for."""
    usual = Options()
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=usual.minutes)
    parser.add_argument("--clients", type=int, default=usual.clients)
    parser.add_argument("--seed", type=int, default=usual.seed)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return Options(**vars(parser.parse_args(arguments)))
