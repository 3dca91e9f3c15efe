"""kill -9 in the middle of a compaction: nothing acknowledged is lost, nothing is broken."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest

from tests.journeys.summaries.troubles import WINDOW, history
from tests.support.command import ROOT, environment, running_command
from tests.support.fake_model import fake_model
from tests.support.live import eventually
from tests.support.summary_model import SummaryModel, after
from tests.unit.chat.shapes import Fields

pytestmark = pytest.mark.anyio

# `chat-proxy serve` for each line it reads, in a fork: importing it twenty times would take most
# of the test's time. The line names the file for the log.
NURSERY = """
import os, signal, sys
import chat_proxy.cli.main
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(line.strip(), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), 2)
        chat_proxy.cli.main.main(["serve"])
    print(child, flush=True)
"""
KILLS = 20
LANES = 2
WRITING_SECONDS = 0.04
LATEST_KILL_SECONDS = 0.12


class Nursery:
    """A process that brings forth proxies, all on one file."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._one_at_a_time = asyncio.Lock()

    async def bear(self, name: str) -> tuple[int, str]:
        """Start a proxy; return its process id and where it serves."""
        log = self._folder / f"{name}.log"
        assert self._process.stdin
        assert self._process.stdout
        async with self._one_at_a_time:
            self._process.stdin.write(f"{log}\n".encode())
            child = int(await self._process.stdout.readline())
        await eventually(lambda: address_in(log))
        return child, address_in(log)


@asynccontextmanager
async def running_nursery(folder: Path, variables: dict[str, str]) -> AsyncIterator[Nursery]:
    """Run a nursery until the block ends; all who live in it then die with it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        NURSERY,
        env=environment(variables),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield Nursery(process, folder)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def address_in(log: Path) -> str:
    """Return where a proxy serves, once its log says so."""
    lines = log.read_text().splitlines() if log.exists() else []
    started = [line for line in lines if '"server started"' in line and line.endswith("}")]
    return str(json.loads(started[0])["address"]) if started else ""


class Lane:
    """Proxies that are killed one after another, on a file that is shared with other lanes."""

    def __init__(self, name: str, nursery: Nursery, brain: SummaryModel) -> None:
        self._name = name
        self._nursery = nursery
        self._brain = brain
        self.acknowledged: list[str] = []
        self.bodies: dict[str, bytes] = {}
        self.interrupted = 0

    async def live_and_die(self, kills: int) -> None:
        """Be killed so many times; each life begins with what the last one was killed over."""
        for number in range(kills):
            name = f"{self._name}-{number}-"
            child, url = await self._nursery.bear(name)
            await self.check_last(url)
            if number:
                await self.build(url, f"{self._name}-{number - 1}-")
            dying = asyncio.create_task(ask(url, history(name=name)))
            await self._until_asked(name)
            await asyncio.sleep(LATEST_KILL_SECONDS * number / kills)
            os.kill(child, signal.SIGKILL)
            try:
                self.note(name, await dying)
            except httpx.HTTPError:
                self.interrupted += 1

    async def check_last(self, url: str) -> None:
        """Check that what was acknowledged last is still there."""
        for name in self.acknowledged[-1:]:
            await self.check(url, name)

    async def check(self, url: str, name: str) -> None:
        """Check that this conversation needs no new summary and is sent as it was."""
        before = self._asked(name)
        answer = await ask(url, history(name=name))
        assert answer.status_code == 200
        assert answer.headers["x-chat-proxy-compaction"] == "reused"
        assert self._asked(name) == before
        assert self.sent(name) == self.bodies[name]

    async def build(self, url: str, name: str) -> None:
        """Check that a conversation whose compaction was killed is answered as any other."""
        answer = await ask(url, history(name=name))
        assert answer.status_code == 200
        self.note(name, answer)

    def note(self, name: str, answer: httpx.Response) -> None:
        """Remember an answer: what it says of the compaction is what was acknowledged."""
        assert answer.headers["x-chat-proxy-compaction"] in ("built", "reused")
        self.acknowledged.append(name)
        self.bodies[name] = self.sent(name)

    def sent(self, name: str) -> bytes:
        """Return what the model got last of this conversation."""
        question = f"And what now, {name}?".encode()
        return [it.received.body for it in self._brain.chats if question in it.received.body][-1]

    def _asked(self, name: str) -> int:
        return sum(f" {name}0!".encode() in it.received.body for it in self._brain.summaries)

    async def _until_asked(self, name: str) -> None:
        await eventually(lambda: self._asked(name) > 0)


async def ask(url: str, messages: Sequence[Fields]) -> httpx.Response:
    """Send a chat over a connection of its own."""
    body = json.dumps({"model": "fake", "messages": messages}).encode()
    headers = {"content-type": "application/json"}
    async with httpx.AsyncClient(trust_env=False, timeout=200) as client:
        return await client.post(f"{url}/v1/chat/completions", content=body, headers=headers)


def whole_file(path: Path) -> tuple[str, list[str]]:
    """Return SQLite's verdict about the file, and the names of all files beside it."""
    with closing(sqlite3.connect(path)) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
    return verdict, [file.name for file in path.parent.iterdir()]


async def test_no_acknowledged_summary_is_lost_by_a_kill(tmp_path: Path) -> None:
    """Issue 5, point 10; FAULTS D6, E3: a killed proxy leaves a whole file and no lock behind."""
    path = tmp_path / "store.db"
    brain = SummaryModel(after(WRITING_SECONDS))
    async with fake_model(brain) as model:
        variables = {
            "UPSTREAM_BASE_URL": model.url,
            "STORE_URL": f"sqlite:///{path}",
            "BUDGET_CONTEXT_WINDOW": str(WINDOW),
            "BUDGET_PREPARE": "1",
            "SUMMARY_WAIT": "trigger",
        }
        async with running_nursery(tmp_path, variables) as nursery, asyncio.TaskGroup() as together:
            lanes = [Lane(f"lane{number}", nursery, brain) for number in range(LANES)]
            for lane in lanes:
                together.create_task(lane.live_and_die(KILLS // LANES))

        verdict, files = whole_file(path)
        async with running_command("serve", **variables) as command:
            url = await command.url()
            for lane in lanes:
                for name in dict.fromkeys(lane.acknowledged):
                    await lane.check(url, name)
            messages = [line["message"] for line in command.log()]

    assert verdict == "ok"
    assert not any("corrupt" in name for name in files)
    assert "a store operation failed" not in messages
    assert sum(len(set(lane.acknowledged)) for lane in lanes) >= KILLS - LANES
    assert sum(lane.interrupted for lane in lanes) >= KILLS // 5
