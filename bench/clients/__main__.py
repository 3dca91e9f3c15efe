"""`python -m bench.clients`: what clients cost that do not only append to their history."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from bench.clients.catalogue import APPEND_ONLY, BEHAVIOURS, Behaviour
from bench.clients.costs import Row, row
from bench.clients.histories import Client, Kind, client_of
from bench.clients.replay import Outcome, replay
from bench.clients.report import before
from bench.clients.report.page import failures, page, plot, table, verdict
from bench.progress import tell
from bench.servers import REPOSITORY
from chat_proxy import __file__ as package_file

DOCS = REPOSITORY / "docs/bench"
KINDS: tuple[Kind, ...] = ("chat", "agent")
QUICK_SHARE = 0.5


def main() -> int:
    """Replay, print the table and write the page if asked to; 1 says that a goal is missed."""
    given = _options()
    tell(f"measuring {Path(package_file).parent}")
    share = QUICK_SHARE if given.quick else 1.0
    clients = {kind: client_of(kind, given.seed, share) for kind in KINDS}
    chosen = [it for it in BEHAVIOURS if _is_chosen(it, given.only)]
    found = asyncio.run(run(chosen, clients, given.jobs))
    tell("")
    if given.before:
        before.save(found)
    earlier = {} if given.quick else before.load()
    print("\n".join([*table(found, earlier), "", *verdict(found)]))
    if given.write:
        (DOCS / "clients.svg").write_text(plot(found, earlier), encoding="utf-8")
        (DOCS / "clients.md").write_text(page(found, earlier, given.seed), encoding="utf-8")
    return 1 if failures(found) else 0


async def run(chosen: list[Behaviour], clients: dict[Kind, Client], jobs: int) -> list[Row]:
    """Return a row for each behaviour, after the append-only clients that they are compared to."""
    slots = asyncio.Semaphore(jobs)
    with tempfile.TemporaryDirectory(prefix="clients-") as name:

        async def replayed(behaviour: Behaviour) -> Outcome:
            async with slots:
                began = time.perf_counter()
                outcome = await replay(behaviour, clients[behaviour.kind], Path(name))
            tell(
                f"{behaviour.name}: {outcome.side_queries} side-queries in {outcome.requests} "
                f"requests, {time.perf_counter() - began:.0f} s"
            )
            return outcome

        kinds = {it.kind for it in chosen}
        first = [it for it in BEHAVIOURS if it.title == APPEND_ONLY and it.kind in kinds]
        others = [it for it in chosen if it not in first]
        outcomes = await asyncio.gather(*map(replayed, [*first, *others]))
    append = {it.kind: outcome for it, outcome in zip(first, outcomes, strict=False)}
    return [
        row(it, clients[it.kind], outcome, append[it.kind])
        for it, outcome in zip([*first, *others], outcomes, strict=True)
    ]


def _is_chosen(behaviour: Behaviour, only: list[str] | None) -> bool:
    return only is None or any(part in behaviour.name for part in only)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half of each history")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="only names with this in them; repeatable"
    )
    parser.add_argument("--seed", type=int, default=1, help="other histories (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="clients at once (default 2)")
    parser.add_argument("--write", action="store_true", help="write docs/bench/clients.md")
    parser.add_argument("--before", action="store_true", help="keep the figures as those before")
    given = parser.parse_args()
    if (given.write or given.before) and (given.quick or given.only):
        parser.error("a part of the figures is not written")
    return given


if __name__ == "__main__":
    sys.exit(main())
