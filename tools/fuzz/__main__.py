"""`python -m tools.fuzz`: every target for its share of the seconds; 1 says that one failed."""

import argparse
import sys
from pathlib import Path

from tools.fuzz.run import fuzz, is_guided
from tools.fuzz.targets import TARGETS, Target


def main() -> int:
    """Fuzz, or try one input again."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    # Python 3.11 looks for the empty list among the choices too.
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="all, unless named")
    parser.add_argument("--seconds", type=float, default=300, help="for all targets together")
    parser.add_argument("--input", type=Path, help="try this file on one target, and nothing else")
    options = parser.parse_args()
    chosen = [TARGETS[name] for name in options.targets or TARGETS]
    if options.input is not None:
        for target in chosen:
            target.load()(options.input.read_bytes())
        return 0
    return fuzz_all(chosen, options.seconds)


def fuzz_all(targets: list[Target], seconds: float) -> int:
    """Run the targets one after another, and tell what came of each."""
    guide = "guided by coverage" if is_guided() else "unguided: atheris is not installed"
    tell(f"{len(targets)} targets, {seconds:.0f} s in all, {guide}")
    failed = 0
    for number, target in enumerate(targets, 1):
        finding = fuzz(target, seconds / len(targets))
        tell(
            f"{number}/{len(targets)} {target.name:10}{finding.runs:12,} runs"
            f"{finding.coverage:8,} edges{finding.seconds:8.0f} s"
        )
        failed += bool(finding.words)
        if finding.words:
            tell(f"FAILED\n{finding.words}")
        for crash in finding.crashes:
            tell(f"  again by: python -m tools.fuzz {target.name} --input {crash}")
    return 1 if failed else 0


def tell(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
