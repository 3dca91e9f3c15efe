"""One target at a time in a process of its own, for its share of the time."""

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.support.command import ROOT
from tools.fuzz.targets import CORPUS, Target

WORK = ROOT / ".fuzz"
"""What runs find: inputs that reached something new, and inputs that failed. Not kept in git."""
CRASHES = WORK / "crashes"
LONGEST_BYTES = 4_096
LONGEST_SECONDS_FOR_ONE = 20
_RUNS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_COVERAGE = re.compile(r"cov: (\d+)")


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one target."""

    runs: int
    coverage: int
    seconds: float
    crashes: list[Path]
    words: str
    """The end of what the process said, if it failed."""


def is_guided() -> bool:
    """Tell whether atheris is installed: without it nobody sees what an input reached."""
    return find_spec("atheris") is not None


def fuzz(target: Target, seconds: float) -> Finding:
    """Run a target for so long, or until it fails."""
    CRASHES.mkdir(parents=True, exist_ok=True)
    before = set(CRASHES.iterdir())
    command = _guided(target, seconds) if is_guided() else _unguided(target, seconds)
    began = time.monotonic()
    # Twice the time: a target that hangs is stopped by libFuzzer, one that does not stop by us.
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=2 * seconds + 120,
        check=False,
    )
    said = ended.stderr + ended.stdout
    return Finding(
        runs=max(map(int, _RUNS.findall(said)), default=0),
        coverage=max(map(int, _COVERAGE.findall(said)), default=0),
        seconds=time.monotonic() - began,
        crashes=sorted(set(CRASHES.iterdir()) - before),
        words=said[-3_000:] if ended.returncode else "",
    )


def _guided(target: Target, seconds: float) -> list[str]:
    found = WORK / "corpus" / target.name
    found.mkdir(parents=True, exist_ok=True)
    return [
        "tools.fuzz.guided",
        target.name,
        f"-max_total_time={max(1, round(seconds))}",
        f"-timeout={LONGEST_SECONDS_FOR_ONE}",
        f"-max_len={LONGEST_BYTES}",
        f"-dict={target.word_file}",
        f"-artifact_prefix={CRASHES}/{target.name}-",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        str(found),
        str(CORPUS / target.name),
    ]


def _unguided(target: Target, seconds: float) -> list[str]:
    return ["tools.fuzz.unguided", target.name, str(seconds), str(CRASHES)]
