"""`python -m tools.fuzz.unguided TARGET SECONDS FOLDER`: mutations of the seeds, one by one."""

import sys
import time
from hashlib import sha256
from itertools import chain
from pathlib import Path
from random import Random

from tools.fuzz.mutations import mutations_of
from tools.fuzz.targets import TARGETS

FAILED = 77
"""As libFuzzer's own exit code."""


def main(name: str, seconds: float, folder: Path) -> int:
    """Try inputs until the time is up or one fails; that one is kept in the folder."""
    target = TARGETS[name]
    test = target.load()
    seeds = target.seeds()
    end = time.monotonic() + seconds
    runs = 0
    for data in chain(seeds, mutations_of(seeds, target.words(), Random())):
        if time.monotonic() > end:
            break
        runs += 1
        try:
            test(data)
        except Exception:
            (folder / f"{name}-crash-{sha256(data).hexdigest()[:16]}").write_bytes(data)
            raise
    sys.stderr.write(f"stat::number_of_executed_units: {runs}\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])))
    except Exception:  # noqa: BLE001 - whatever it is, it is what we look for
        sys.excepthook(*sys.exc_info())
        sys.exit(FAILED)
