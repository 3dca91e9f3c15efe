"""`python -m bench.quality --data FILE`: what stays known of recorded conversations.

The figures are kept in bench/quality/results.json, so that some systems can be measured again.
"""

import argparse
import asyncio
import fcntl
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import orjson

from bench.conversation.prompt import Prompt
from bench.machine import machine_facts
from bench.peers.install import PeerUnavailable
from bench.progress import tell
from bench.quality.bill import Bill
from bench.quality.figures import OTHER_THRESHOLDS
from bench.quality.recordings.read import DIALOGUES, TRAJECTORIES, Recordings, read
from bench.quality.recordings.session import Session, in_groups
from bench.quality.replay import Asked, Outcome, replay
from bench.quality.report import charts, page
from bench.quality.systems import System, systems, with_thresholds
from bench.servers import REPOSITORY, ServerFailed

DOCS = REPOSITORY / "docs/bench"
RESULTS = REPOSITORY / "bench/quality/results.json"
WINDOWS = "8192,16384"
JOBS = 2
SIZES = {DIALOGUES: (1, 2), TRAJECTORIES: (10,)}
"""How many recordings are joined to one session; a run of an agent alone is much too short."""
LEAST_WINDOWS = 2
"""Sessions shorter than so many windows are joined as well: too little of them is forgotten."""


class Task(NamedTuple):
    """One session, in one window, through one system."""

    session: Session
    group: str
    window: int
    system: System


class Found(NamedTuple):
    """The outcomes, and why systems could not run, by their names."""

    outcomes: list[Outcome]
    failures: dict[str, str]


def main() -> int:
    """Replay, print the page, and write it and its plots if asked to."""
    given = _options()
    chosen = [it for it in all_systems() if it.name in (given.systems or [it.name])]
    tasks = tasks_of(given.data, [int(it) for it in given.windows.split(",")], chosen, given.limit)
    found = asyncio.run(run(tasks, given.jobs, keep if given.write else _forget))
    outcomes = kept() if given.write else found.outcomes
    machine = machine_facts()
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "data": ", ".join(path.name for path in given.data),
        "machine": f"{machine['cores']} cores, {machine['processor']}, {machine['system']}",
        "python": machine["python"],
        **{it.name: it.version for it in systems() if it.version},
    }
    written = page(outcomes, facts, found.failures)
    print(written)
    if given.write:
        (DOCS / "quality.md").write_text(written, encoding="utf-8")
        for name, chart in charts(outcomes).items():
            (DOCS / f"{name}.svg").write_text(chart.svg(), encoding="utf-8")
    return 0


def tasks_of(
    paths: Sequence[Path], windows: Sequence[int], chosen: Sequence[System], limit: int | None
) -> list[Task]:
    """Return what is to be replayed, in the order of the page."""
    return [
        Task(session, group, window, system)
        for path in paths
        for window in windows
        for group, sessions in groups_for(read(path), window)
        for system in chosen
        if _takes_part(system, group, window, windows)
        for session in sessions[:limit]
    ]


def all_systems() -> list[System]:
    """Return the systems in the order of the page."""
    return [*systems(), *with_thresholds()]


def _takes_part(system: System, group: str, window: int, windows: Sequence[int]) -> bool:
    """Return whether a system is measured: other thresholds only where the bill is the question."""
    return system.name not in OTHER_THRESHOLDS or (group, window) == (DIALOGUES, min(windows))


def groups_for(recordings: Recordings, window: int) -> Iterator[tuple[str, list[Session]]]:
    """Yield the sessions for a window: joined to longer ones until they are long enough."""
    kind = recordings.kind
    for size in SIZES[kind]:
        sessions = in_groups(recordings.sessions, size)
        yield (kind if size == 1 else f"{kind}, joined by {size}"), sessions
        if fmean(map(tokens_in, sessions)) >= LEAST_WINDOWS * window:
            return


def tokens_in(session: Session) -> int:
    """Return the tokens of a whole session."""
    return len(Prompt({"messages": session.messages, **session.options}).tokens)


async def run(tasks: Sequence[Task], jobs: int, keep: Callable[[Outcome], None]) -> Found:
    """Replay all tasks, a few at the same time, each with a model and a gateway of its own.

    Each outcome is kept at once: a run takes long, and others may run beside it.
    """
    slots = asyncio.Semaphore(jobs)
    failures: dict[str, str] = {}
    lock = asyncio.Lock()

    async def one(task: Task, folder: Path) -> Outcome | None:
        system = task.system
        async with slots:
            if system.name in failures:
                return None
            tell(f"{task.group}, {task.window:,}: {system.name}: {task.session.name[:60]}")
            try:
                async with lock:
                    if system.install is not None:
                        await asyncio.to_thread(system.install)
                outcome = await replay(task.session, task.group, task.window, system, folder)
            except (PeerUnavailable, ServerFailed) as error:
                failures[system.name] = str(error)[:300]
                return None
            keep(outcome)
            return outcome

    with tempfile.TemporaryDirectory(prefix="quality-") as folder:
        found = await asyncio.gather(*(one(task, Path(folder)) for task in tasks))
    kept = [it for it in found if it is not None and it.system not in failures]
    return Found(kept, failures)


def kept() -> list[Outcome]:
    """Return the outcomes of this run and of earlier ones, in the order of the page."""
    found = list(map(_outcome, orjson.loads(RESULTS.read_bytes()))) if RESULTS.exists() else []
    names = [it.name for it in all_systems()]
    return sorted(
        (it for it in found if it.system in names),
        key=lambda it: (
            not it.group.startswith(DIALOGUES),
            it.group,
            it.window,
            names.index(it.system),
            it.session,
        ),
    )


def keep(outcome: Outcome) -> None:
    """Write an outcome to the others, in place of an earlier one."""
    with RESULTS.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        others = [it for it in kept() if _key(it) != _key(outcome)]
        RESULTS.write_bytes(orjson.dumps([asdict(it) for it in [*others, outcome]]))


def _forget(outcome: Outcome) -> None:
    """Keep nothing."""


def _key(outcome: Outcome) -> tuple[str, int, str, str]:
    return outcome.group, outcome.window, outcome.system, outcome.session


def _outcome(fields: dict[str, Any]) -> Outcome:
    asked, bill = [Asked(**it) for it in fields["asked"]], Bill(**fields["bill"])
    return Outcome(**{**fields, "asked": asked, "bill": bill})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        action="append",
        required=True,
        help="dialogues or trajectories, JSON or gzipped JSON; repeatable",
    )
    parser.add_argument("--windows", default=WINDOWS, help=f"windows (default {WINDOWS})")
    parser.add_argument("--systems", action="append", metavar="NAME", help="only this; repeatable")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N sessions of each")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"at once (default {JOBS})")
    parser.add_argument("--write", action="store_true", help="write docs/bench/quality.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
