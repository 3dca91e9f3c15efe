"""`python -m bench.conversation.dialogues`: what of recorded dialogues stays in the prompt.

Each dialogue is replayed turn by turn as a chat. A question counts as answerable if at least half
of the rare words of every turn that is its evidence stand in the last prompt that was accepted.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from bench.contenders import launch_chat_proxy
from bench.conversation.dialogues.data import Dialogue, read
from bench.conversation.dialogues.replay import Outcome, replay
from bench.conversation.dialogues.report import table
from bench.conversation.model import ScriptedModel, Summarise, running
from bench.conversation.prompt import Prompt
from bench.conversation.summarisers.extractive import extract
from bench.conversation.systems import started
from bench.progress import tell
from chat_proxy import __file__ as package_file

WINDOWS = "8192,16384"


def no_summary(prompt: Prompt) -> None:
    """Write nothing: there is no model for summaries."""


SUMMARISERS: dict[str, Summarise] = {"extract": extract, "none": no_summary}


def main() -> int:
    """Replay the dialogues and print the table."""
    given = _options()
    tell(f"measuring {Path(package_file).parent}")
    dialogues = read(given.data)[: given.limit]
    windows = [int(window) for window in given.windows.split(",")]
    found = asyncio.run(run(dialogues, windows, SUMMARISERS[given.summariser]))
    print(table(found))
    return 0


async def run(dialogues: list[Dialogue], windows: list[int], summarise: Summarise) -> list[Outcome]:
    """Replay every dialogue in every window, each through a proxy of its own."""
    found = []
    with tempfile.TemporaryDirectory(prefix="dialogues-") as folder:
        async with running(ScriptedModel(summarise=summarise)) as model:
            for window in windows:
                for dialogue in dialogues:
                    tell(f"{window}: {dialogue.name}")
                    model.begin(window)
                    async with started(launch_chat_proxy, model.port, Path(folder)) as url:
                        found.append(await replay(dialogue, window, model, url))
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.conversation.dialogues", description=__doc__
    )
    parser.add_argument("--data", type=Path, required=True, help="dialogues, JSON or gzipped JSON")
    parser.add_argument("--windows", default=WINDOWS, help=f"windows (default {WINDOWS})")
    parser.add_argument("--summariser", choices=sorted(SUMMARISERS), default="extract")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N dialogues")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
