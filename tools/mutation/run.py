"""How many small changes of the core are noticed: `python -m tools.mutation.run --sample 300`.

Each change is made in a copy and only the tests that run its line are run, the fastest first, until
one fails. The sample is the same for the same seed and the same sources.
"""

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from coverage import CoverageData

from tests.bugs.bringing_back import ROOT, Workshop, copy_of_the_project, open_workshop
from tools.mutation.mutants import Mutant, mutants_of

RECOGNITION = "proxy/session/recognition"
SOURCES = tuple(f"app/chat_proxy/{it}" for it in ("compaction", "chat", "wires", RECOGNITION))
SUITES = tuple(f"tests/unit/{it}" for it in ("compaction", "chat", "wires", RECOGNITION))
_PLUGINS = ("-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider")
_LONGEST_SECONDS = 100
_NO_ANSWER = (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)
# Tests of speed take the longest and tell nothing here.
_OF_SPEED = re.compile(r"_(?:no|linear|take[sn]?)_(?:\w+_)?(?:time|long)$|_at_once$|_in_no_time")


@dataclass
class Map:
    """Which tests run which line, and how long each takes."""

    tests: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=dict)

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests of a line, the fastest first; of its file, if it runs at import."""
        found = self.tests.get((mutant.file, mutant.line)) or {
            test for (file, _), tests in self.tests.items() if file == mutant.file for test in tests
        }
        telling = (test for test in found if not _OF_SPEED.search(test))
        return sorted(telling, key=lambda test: (self.seconds.get(test, 0.0), test))


def main() -> None:
    """Print every change that nobody notices, and the share of those that somebody does."""
    wished = _arguments()
    chosen = sample(wished.sample, wished.seed)
    with tempfile.TemporaryDirectory() as name:
        copy = copy_of_the_project(Path(name).resolve())
        places = mapped(copy)
        with open_workshop(copy) as workshop:
            survivors = list(_survivors(chosen, places, copy, workshop))
    noticed = len(chosen) - len(survivors)
    score = 100 * noticed / len(chosen)
    _say(f"{noticed} of {len(chosen)} changes noticed: {score:.1f} % (seed {wished.seed})")
    sys.exit(score < wished.least)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=300, help="how many changes are tried")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--least", type=float, default=0, help="the score below which it fails")
    return parser.parse_args()


def sample(size: int, seed: int) -> list[Mutant]:
    """Choose some of all changes, in the order of the files."""
    files = sorted(file for source in SOURCES for file in (ROOT / source).rglob("*.py"))
    names = [str(file.relative_to(ROOT)) for file in files]
    found = [it for name in names for it in mutants_of(name, (ROOT / name).read_text())]
    chosen = random.Random(seed).sample(found, min(size, len(found)))
    return sorted(chosen, key=lambda mutant: (mutant.file, mutant.start, mutant.after))


def mapped(copy: Path) -> Map:
    """Run all suites once and see which test runs which line."""
    report = copy / "durations.txt"
    settings = copy / "mutation.coveragerc"
    settings.write_text("[run]\nsource = app\n")
    command = [sys.executable, "-m", "pytest", "-q", *_PLUGINS, "--durations=0", "-vv", *SUITES]
    command += ["--cov=app", "--cov-context=test", "--cov-report=", f"--cov-config={settings}"]
    with report.open("w") as paper:
        subprocess.run(command, cwd=copy, stdout=paper, check=True)
    return Map(_tests_by_line(copy), _seconds_by_test(report.read_text().splitlines()))


def _tests_by_line(copy: Path) -> dict[tuple[str, int], set[str]]:
    data = CoverageData(str(copy / ".coverage"))
    data.read()
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    for file in data.measured_files():
        name = str(Path(file).relative_to(copy))
        for line, contexts in data.contexts_by_lineno(file).items():
            found[name, line] |= {re.split(r"[\[|]", context)[0] for context in contexts if context}
    return found


def _seconds_by_test(report: Iterable[str]) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for line in report:
        words = line.split()
        if len(words) >= 3 and words[1] == "call" and "::" in words[2]:
            seconds[words[2].partition("[")[0]] += float(words[0].removesuffix("s"))
    return seconds


def _survivors(
    chosen: list[Mutant], places: Map, copy: Path, workshop: Workshop
) -> Iterable[Mutant]:
    began = time.monotonic()
    for number, mutant in enumerate(chosen, 1):
        tests = places.of(mutant)
        if tests and is_noticed(mutant, tests, copy, workshop):
            continue
        minutes = (time.monotonic() - began) / 60
        _say(f"[{number}/{len(chosen)}, {minutes:.0f} min] {mutant} ({len(tests)} tests)")
        yield mutant


def is_noticed(mutant: Mutant, tests: list[str], copy: Path, workshop: Workshop) -> bool:
    """Tell whether a test fails while the change is there."""
    file = copy / mutant.file
    before = file.read_text()
    # What Python keeps of a file is told by its second and size, and both may be the same.
    shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
    file.write_text(mutant.applied(before))
    try:
        options = ("-x", f"--timeout={_LONGEST_SECONDS}")
        ran = workshop.run_nodes(copy, tests, options)
        # A file that cannot even be imported leaves pytest without the tests it was asked for.
        assert ran.code not in _NO_ANSWER, ran.words
        return ran.code != pytest.ExitCode.OK
    finally:
        file.write_text(before)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
