"""`python -m tools.malice --seconds 120`: a malicious tenant beside a polite one.

It fails if the polite tenant's slowest waits more than double, or if it loses an answer.
"""

import argparse
import asyncio
import sys

from tools.malice.model import THINKING_SECONDS
from tools.malice.run import Outcome, malice

MOST_RATIO = 2.0
QUIET_SHARE = 4


def main() -> int:
    """Run both phases, and print what the polite tenant saw."""
    parser = argparse.ArgumentParser(prog="python -m tools.malice", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="how long the attack takes")
    seconds = parser.parse_args().seconds
    outcome = asyncio.run(malice(max(5.0, seconds / QUIET_SHARE), seconds))
    sys.stdout.write(report(outcome))
    return 1 if outcome.ratio > MOST_RATIO or outcome.attacked.lost else 0


def report(outcome: Outcome) -> str:
    """Return the figures as text."""
    told = ", ".join(f"{status}: {count}" for status, count in sorted(outcome.statuses.items()))
    lost = outcome.attacked.lost
    lines = [
        f"the model thinks for {THINKING_SECONDS * 1000:.0f} ms",
        (
            f"polite alone:        {len(outcome.quiet.seconds):6} answers, "
            f"p99 {outcome.quiet.p99 * 1000:.0f} ms, lost {len(outcome.quiet.lost)}"
        ),
        (
            f"polite under attack: {len(outcome.attacked.seconds):6} answers, "
            f"p99 {outcome.attacked.p99 * 1000:.0f} ms, "
            f"worst {max(outcome.attacked.seconds) * 1000:.0f} ms, lost {len(lost)}"
        ),
        f"ratio {outcome.ratio:.2f}",
        f"memory {outcome.rss_before / 1e6:.0f} MB before, {outcome.rss_most / 1e6:.0f} MB at most",
        f"the attacker was told {told or 'nothing'}",
        *sorted(set(lost))[:5],
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
