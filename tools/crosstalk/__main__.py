"""`python -m tools.crosstalk --seconds 600`: look for one client's bytes in another's answer."""

import argparse
import sys
from collections.abc import Sequence

import uvloop

from tools.crosstalk.report import progress_of, report
from tools.crosstalk.run import Options, Run, crosstalk


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 says that foreign bytes were delivered, or that something hung or failed."""
    run = uvloop.run(crosstalk(read_options(arguments), tell))
    sys.stdout.write(f"{report(run)}\n")
    return 1 if run.findings.complaints else 0


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Return what the command line asks for."""
    usual = Options()
    parser = argparse.ArgumentParser(prog="python -m tools.crosstalk", description=__doc__)
    parser.add_argument("--seconds", type=float, default=usual.seconds)
    parser.add_argument("--clients", default=f"{usual.fewest_clients}-{usual.most_clients}")
    parser.add_argument("--seed", type=int, default=usual.seed, help="the same requests again")
    chosen = parser.parse_args(arguments)
    fewest, _, most = chosen.clients.partition("-")
    return Options(chosen.seconds, int(fewest), int(most or fewest), chosen.seed)


def tell(run: Run) -> None:
    """Show how far the run is."""
    sys.stderr.write(progress_of(run) + "\n")


if __name__ == "__main__":
    sys.exit(main())
