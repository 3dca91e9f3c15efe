"""`python -m bench.conversation.loss`: which facts of a long session are lost by folding it."""

import argparse
import asyncio
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.contenders import launch_chat_proxy
from bench.conversation.loss.facts import facts
from bench.conversation.loss.models import GOOD, WEAK, FactSummariser, Quality
from bench.conversation.loss.replay import Case, Outcome, replay
from bench.conversation.loss.report import INTRODUCTION, page
from bench.conversation.model import SUMMARY_MODEL, ScriptedModel, running
from bench.conversation.prompt import Json
from bench.conversation.replay import client_session
from bench.conversation.senders import (
    ANSWER_SHARE,
    Dropping,
    Recalling,
    Summarising,
    ThroughProxy,
)
from bench.conversation.systems import CHAT_PROXY, DROP_OLDEST, started
from bench.conversation.toolbox import TOOLS
from bench.progress import tell
from bench.servers import REPOSITORY
from chat_proxy import __file__ as package_file

PAGE = REPOSITORY / "docs/bench/loss.md"
WINDOWS, RESULTS, FOLDS = "32768", "1000,5000", "1,3,10"
QUICK_RESULTS, QUICK_FOLDS = "5000", "1,3"
# An image may hide all turns before it, by a rule of its own that has nothing to do with folds.
SETTINGS = {"CHAT_PROXY_VISION_TRUNCATE_HISTORY": "false"}
# The model that answers summarises too, or another one does, which is shown a transcript.
RECALL = "recall"
SHAPES = {"ride": SETTINGS, "transcript": {**SETTINGS, "CHAT_PROXY_SUMMARY_MODEL": SUMMARY_MODEL}}
SHAPES[RECALL] = {**SETTINGS, "CHAT_PROXY_RECALL_ENABLED": "true"}
QUALITIES: dict[str, tuple[Quality | None, ...]] = {
    "ride": (GOOD, WEAK, None),
    "transcript": (GOOD, WEAK),
    "recall": (GOOD, None),
}


def main() -> int:
    """Replay the sessions, print the tables, and write the page if asked to."""
    given = _options()
    tell(f"measuring {Path(package_file).parent}")
    folds = tuple(_numbers(QUICK_FOLDS if given.quick else given.folds))
    cases = [
        Case(facts(given.seed), window, chars, folds, given.seed)
        for window in _numbers(given.windows)
        for chars in _numbers(QUICK_RESULTS if given.quick else given.results)
    ]
    found = asyncio.run(run(cases, given.shapes.split(",")))
    print(page(found, folds))
    if given.write:
        PAGE.write_text(f"{INTRODUCTION}\n{page(found, folds)}", encoding="utf-8")
    return 0


async def run(cases: list[Case], shapes: list[str]) -> list[Outcome]:
    """Replay every case through every system."""
    with tempfile.TemporaryDirectory(prefix="loss-") as name:
        folder = Path(name)
        return [it for case in cases for it in await _all_systems(case, shapes, folder)]


async def _all_systems(case: Case, shapes: list[str], folder: Path) -> list[Outcome]:
    found = [
        await _proxied(case, shape, quality, folder)
        for shape in shapes
        for quality in QUALITIES[shape]
    ]
    for quality in (GOOD, WEAK):
        summariser = FactSummariser(case.facts, quality)
        name = _named(case, f"own summary, {quality.name}")
        sender = Summarising(case.window, summariser, options_of(case.window))
        found.append(await replay(name, case, sender, summariser.shown))
    moments = found[0].moments
    dropping = Dropping(case.window, options_of(case.window))
    found.append(await replay(_named(case, DROP_OLDEST), case, dropping, set(), moments))
    return found


async def _proxied(case: Case, shape: str, quality: Quality | None, folder: Path) -> Outcome:
    """Replay through a proxy of its own, in front of a model of this quality."""
    summariser = FactSummariser(case.facts, quality)
    beside = "" if shape == "ride" else f", {shape}"
    name = _named(case, f"{CHAT_PROXY}, {quality.name if quality else 'none'}{beside}")
    launch = partial(launch_chat_proxy, settings=SHAPES[shape])
    async with (
        running(ScriptedModel(case.window, summariser)) as model,
        started(launch, model.port, folder) as url,
        client_session() as client,
    ):
        sender = Recalling if shape == RECALL else ThroughProxy
        sending = sender(client, url, model, options_of(case.window))
        return await replay(name, case, sending, summariser.shown)


def options_of(window: int) -> Json:
    """Return the fields of an agent's request beside its model and its messages."""
    return {"tools": TOOLS, "max_tokens": window // ANSWER_SHARE}


def _named(case: Case, system: str) -> str:
    """Tell which system is next, and return its name."""
    tell(f"{case.window:,}, results of {case.result_chars:,}: {system}")
    return system


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.conversation.loss", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="long results, up to three folds")
    parser.add_argument("--windows", default=WINDOWS, help=f"windows (default {WINDOWS})")
    parser.add_argument("--results", default=RESULTS, help=f"their characters (default {RESULTS})")
    parser.add_argument("--folds", default=FOLDS, help=f"when to ask (default {FOLDS})")
    shapes = ",".join(SHAPES)
    parser.add_argument("--shapes", default=shapes, help=f"of summary requests (default {shapes})")
    parser.add_argument("--seed", type=int, default=1, help="another session (default 1)")
    parser.add_argument("--write", action="store_true", help="write docs/bench/loss.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
