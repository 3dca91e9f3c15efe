"""`make small-model`: the proxy before a real model of 135M parameters with a small window."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from bench.machine import machine_facts
from bench.servers import Launch, Server, ServerFailed, free_port
from tests.support.command import running_command
from tools.engine.install import ROOT
from tools.engine.progress import say
from tools.engine.report import Section, line
from tools.small_model.chat import Chat, Turn, User
from tools.small_model.figures import LongChat, Metrics, contact_findings
from tools.small_model.install import PACKAGES, PYTHON, NotInstalled, install
from tools.small_model.recorder import Recorder, recording
from tools.small_model.report import INTRODUCTION, page, prompt_lines, turn_lines
from tools.small_model.reworded import REWORDED, REWORDED_FACTS
from tools.small_model.serve import MODEL
from tools.small_model.story import FACTS, USER, Fact

PAGE: Final = ROOT / "docs" / "bench" / "small_model.md"
WINDOW: Final = 2_048
MAX_TOKENS: Final = 160
CONTACTS: Final = 4


@dataclass(frozen=True)
class Stand:
    """A user before the proxy, before the recorder, before the server."""

    user: User
    recorder: Recorder
    client: httpx.AsyncClient

    async def metrics(self) -> Metrics:
        """Return the proxy's counters as they are now."""
        return Metrics((await self.client.get("/metrics")).text)

    async def known_window(self) -> str:
        """Return the window that the proxy knows, and from where."""
        question = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
        explained = (await self.client.post("/v1/chat/explain", json=question)).json()
        return "{tokens} ({source})".format(**explained["window"])


@asynccontextmanager
async def standing(pause: float, slots: int) -> AsyncIterator[Stand]:
    """Run a server with a fresh proxy before it until the block ends."""
    port = free_port()
    command = [str(PYTHON), "tools/small_model/serve.py", str(port), str(WINDOW), str(slots)]
    with (
        tempfile.TemporaryDirectory(prefix="small-model-") as folder,
        Server(Launch(command, port), Path(folder)),
    ):
        async with (
            recording(f"http://127.0.0.1:{port}") as recorder,
            running_command("serve", UPSTREAM_BASE_URL=recorder.url, STORE_URL="memory:") as proxy,
            httpx.AsyncClient(base_url=await proxy.url(), trust_env=False, timeout=300) as client,
        ):
            yield Stand(User(client, recorder, WINDOW, MAX_TOKENS, pause), recorder, client)


async def long_chat(
    pause: float, slots: int, user: Sequence[str] = USER, facts: Sequence[Fact] = FACTS
) -> LongChat:
    """Hold a chat turn by turn."""
    async with standing(pause, slots) as stand:
        chat = Chat()
        for text in user:
            await stand.user.say(chat, text)
        request = {"model": MODEL, "messages": chat.history[:-1], "max_tokens": MAX_TOKENS}
        direct = await stand.recorder.client.post("/v1/chat/completions", json=request)
        said = direct.json()
        tokens = said.get("error", {}).get("n_prompt_tokens", 0)
        return LongChat(
            chat,
            stand.recorder.exchanges,
            await stand.metrics(),
            WINDOW,
            MAX_TOKENS,
            await stand.known_window(),
            direct.status_code,
            tokens or said["usage"]["prompt_tokens"],
            facts,
        )


async def first_contacts(chat: Chat, number: int, slots: int) -> Section:
    """Send the whole history at once, again and again, each time as another chat."""
    async with standing(0, slots) as stand:
        turns: list[Turn] = []
        system, first, *others = chat.history[:-1]
        for copy in range(number):
            named = {**first, "content": f"({copy + 1}) {first['content']}"}
            messages = [system, named, *others]
            turns.append(await stand.user.send(messages, streams=False, fitted=False))
        summaries = [it for it in stand.recorder.exchanges if it.is_summary]
        return Section(
            "At first contact", contact_findings(turns, summaries, await stand.metrics())
        )


async def run(chosen: argparse.Namespace) -> list[Section]:
    """Hold the chats and return what was found."""
    say(f"{len(USER)} turns")
    found = await long_chat(chosen.pause, chosen.slots)
    say("\n".join(turn_lines(found.chat.turns)))
    if chosen.prompt:
        print("\n".join(prompt_lines(found.chat.last_prompt)))
    sections = [Section("Turn by turn", found.findings())]
    say("the facts in other words")
    other = await long_chat(chosen.pause, chosen.slots, REWORDED, REWORDED_FACTS)
    sections.append(Section("The facts in other words", other.reworded_findings()))
    if chosen.contacts:
        say(f"{chosen.contacts} chats at first contact")
        sections.append(await first_contacts(found.chat, chosen.contacts, chosen.slots))
    return sections


def introduction(slots: int) -> str:
    """Return what a reader must know about the run."""
    machine = machine_facts()
    packages = ", ".join(f"{name} {version}" for name, version in PACKAGES.items())
    described = f"{machine['cores']} cores ({machine['processor']}), Python {machine['python']}"
    return INTRODUCTION.format(
        window=f"{WINDOW:,}",
        turns=len(USER),
        facts=len(FACTS),
        slots=slots,
        max_tokens=MAX_TOKENS,
        run=f"{machine['date'][:10]}, {described}; {packages}.",
    )


def main() -> None:
    """Install what is missing, run, print, and fail if a figure is not what is wanted."""
    parser = argparse.ArgumentParser(prog="python -m tools.small_model", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two turns")
    parser.add_argument("--slots", type=int, default=1, help="requests that the server works on")
    parser.add_argument("--prompt", action="store_true", help="print the last prompt")
    parser.add_argument("--contacts", type=int, default=CONTACTS, help="chats at first contact")
    chosen = parser.parse_args()
    say(f"installing {' and '.join(PACKAGES)}")
    try:
        install()
        sections = asyncio.run(run(chosen))
    except (NotInstalled, ServerFailed) as error:
        sys.exit(f"there is no small model here: {error}")
    findings = [finding for section in sections for finding in section.findings]
    for finding in findings:
        say(line(finding))
    if chosen.write:
        PAGE.write_text(page(introduction(chosen.slots), sections), encoding="utf-8")
    failed = [finding for finding in findings if not finding.holds]
    sys.exit(f"{len(failed)} figures are not what is wanted" if failed else None)


if __name__ == "__main__":
    main()
