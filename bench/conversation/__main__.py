"""`python -m bench.conversation`: what whole conversations cost, and what they remember."""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from bench.conversation.model import Call, ScriptedModel, running
from bench.conversation.replay import Outcome, replay
from bench.conversation.report import charts, page
from bench.conversation.sessions import QUICK, SIZES, Session, sessions
from bench.conversation.systems import SYSTEMS, System, started
from bench.conversation.verdict import losses
from bench.peers.headroom import install_headroom
from bench.peers.install import PeerUnavailable
from bench.progress import tell
from bench.servers import REPOSITORY, ServerFailed

DOCS = REPOSITORY / "docs/bench"
RESULTS = REPOSITORY / "bench/conversation/results.json"
NO_LIMIT = 1_000_000_000


def main() -> int:
    """Replay, write the page and its plots; 1 says that chat-proxy was beaten somewhere."""
    given = _options()
    sizes = QUICK if given.quick else SIZES
    chosen = [it for it in sessions(sizes, given.seed) if it.name in (given.sessions or [it.name])]
    systems = [it for it in SYSTEMS if it.name in (given.systems or [it.name])]
    found = asyncio.run(run(chosen, systems)) if not given.redraw else []
    if not given.quick:
        found = _kept_with(found)
        RESULTS.write_bytes(orjson.dumps([asdict(it) for it in found]))
    print(page(found, given.seed))
    if not given.quick:
        _publish(found, given.seed)
    return 1 if losses(found) else 0


def _publish(found: list[Outcome], seed: int) -> None:
    """Write the page and its plots, if everybody is on it: half of it would be no comparison."""
    absent = [system.name for system in SYSTEMS if system.name not in {it.system for it in found}]
    if absent:
        print(f"!! docs/bench is left as it is: not replayed are {', '.join(absent)}")
        return
    DOCS.mkdir(parents=True, exist_ok=True)
    for name, chart in charts(found).items():
        (DOCS / f"{name}.svg").write_text(chart.svg(), encoding="utf-8")
    (DOCS / "conversation.md").write_text(page(found, seed), encoding="utf-8")


async def run(chosen: list[Session], systems: list[System]) -> list[Outcome]:
    """Replay every session through every system that can be had."""
    found = []
    with tempfile.TemporaryDirectory(prefix="conversation-") as folder:
        async with running(ScriptedModel()) as model:
            for system in systems:
                for session in chosen:
                    tell(f"{session.name}: {system.name}")
                    try:
                        found.append(await _replayed(session, system, model, Path(folder)))
                    except (PeerUnavailable, ServerFailed) as error:
                        print(f"!! {system.name}: {error}", file=sys.stderr)
                        break
    return found


async def _replayed(
    session: Session, system: System, model: ScriptedModel, folder: Path
) -> Outcome:
    model.begin(session.size.window if system.is_limited else NO_LIMIT)
    if system.launch is None:
        return await replay(session, system, model, f"http://127.0.0.1:{model.port}")
    if system.is_peer:
        await asyncio.to_thread(install_headroom)
    async with started(system.launch, model.port, folder) as url:
        return await replay(session, system, model, url)


def _kept_with(found: list[Outcome]) -> list[Outcome]:
    """Return what was found now, and of an earlier run what was not replayed now."""
    earlier = orjson.loads(RESULTS.read_bytes()) if RESULTS.exists() else []
    again = {(it.session, it.system) for it in found}
    kept = [_outcome(it) for it in earlier if (it["session"], it["system"]) not in again]
    systems = [system.name for system in SYSTEMS]
    order = sorted(kept + found, key=lambda it: (it.window, it.kind, systems.index(it.system)))
    return list(order)


def _outcome(fields: dict[str, Any]) -> Outcome:
    return Outcome(**{**fields, "calls": [Call(**call) for call in fields["calls"]]})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.conversation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short sessions; nothing is kept")
    parser.add_argument("--seed", type=int, default=1, help="other sessions (default 1)")
    parser.add_argument("--systems", action="append", metavar="NAME", help="only this; repeatable")
    parser.add_argument("--sessions", action="append", metavar="NAME", help="only this; repeatable")
    parser.add_argument("--redraw", action="store_true", help="replay nothing, write the page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
