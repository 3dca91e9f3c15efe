"""`python -m tools.soak --minutes 10`: load and faults for as long as you like; fails on growth."""

import asyncio
import sys

from tools.soak.growth import Sample
from tools.soak.options import read_options
from tools.soak.report import line_of, report, write
from tools.soak.run import Outcome, soak

LINES_ELSEWHERE = 15
"""Without a terminal one sample of so many is told."""


def main() -> int:
    """Run the soak; 1 says that something grew, or does not add up."""
    options = read_options()
    outcome = asyncio.run(soak(options, Teller(options.minutes)))
    sys.stdout.write(f"\n{report(outcome)}\n")
    if options.json is not None:
        write(outcome, options.json)
    return 1 if outcome.complaints else 0


class Teller:
    """Tells how far the run is, on one line of a terminal, or now and then."""

    def __init__(self, minutes: float) -> None:
        self._minutes = minutes

    def __call__(self, sample: Sample, outcome: Outcome) -> None:
        wrong = len(outcome.books.complaints)
        line = f"{line_of(sample)} of {self._minutes:g} minutes, {wrong} complaints"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{line}")
        elif len(outcome.samples) % LINES_ELSEWHERE == 1:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
