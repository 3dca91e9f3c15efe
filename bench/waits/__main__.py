"""`python -m bench.waits`: how long clients wait while a long conversation is compacted."""

import argparse
import sys
import tempfile
from pathlib import Path

from bench.progress import tell
from bench.servers import REPOSITORY, Launch, Server, free_port
from bench.waits.journey import Journey, Step
from bench.waits.page import NOW, Found, misses, page
from chat_proxy import __file__ as package_file

DOCUMENT = REPOSITORY / "docs/bench/waits.md"
SIZES = (100_000, 500_000, 2_000_000, 10_000_000)
QUICK_SIZES = SIZES[:2]
ROUNDS = 5
HERE = Path(package_file).parent.parent


def main() -> int:
    """Measure and print the page; 1 says that the other client waited longer than it may."""
    given = _options()
    apps = {NOW: HERE} if given.before is None else {"before": given.before, NOW: HERE}
    sizes = QUICK_SIZES if given.quick else SIZES
    with tempfile.TemporaryDirectory(prefix="waits-") as folder:
        found = measure(sizes, 1 if given.quick else given.rounds, apps, Path(folder))
    tell("")
    text = page(found, list(apps))
    print(text)
    if given.write:
        DOCUMENT.write_text(text, encoding="utf-8")
    return 1 if misses(found) else 0


def measure(sizes: tuple[int, ...], rounds: int, apps: dict[str, Path], folder: Path) -> Found:
    """Return every step by size and checkout; the checkouts take turns in each round."""
    port = free_port()
    found: Found = {size: {name: [] for name in apps} for size in sizes}
    with Server(_upstream(port), folder):
        for size in sizes:
            for number in range(rounds):
                for name, app in apps.items():
                    tell(f"{size / 1e6:g} MB, round {number + 1}, {name}")
                    seed = f"repository-{size}-{number}"
                    steps: dict[str, Step] = Journey(size, seed, port, folder, app).run()
                    found[size][name].append(steps)
    return found


def _upstream(port: int) -> Launch:
    command = [sys.executable, "-m", "bench.waits.upstream", str(port)]
    return Launch(command, port, environment={"PYTHONPATH": str(HERE)})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.waits", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of the two short ones")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    parser.add_argument("--write", action="store_true", help="write docs/bench/waits.md")
    parser.add_argument(
        "--before", type=Path, metavar="APP", help="the folder app/ of a checkout to compare with"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
