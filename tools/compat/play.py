"""Plays scenarios with one client through a real proxy process, and says how each went."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from chat_proxy.config.settings import PREFIX
from chat_proxy.demo.model.answers import Choice
from tests.support.command import Command, ask, running_command
from tests.support.fake_model import fake_model
from tests.support.live import eventually
from tools.compat.install import NODE_BIN
from tools.compat.lineup import INSTALLED, LEAVE_BY_THEMSELVES, ROOT, Client
from tools.compat.model import NAME, Script, ScriptedModel, first_of
from tools.compat.report.results import FAILED, NOT_APPLICABLE, OK, Finding
from tools.compat.scenarios import Observed, Scenario
from tools.compat.workplace import PROOF, furnish

SECONDS_TO_LEAVE = 20
SECONDS_TO_STOP = 60
SECONDS_TO_HALF = 900
LONG_STEPS = 20
"""Half of the steps of a script that is long enough for a restart."""
LONG_PAGE = 3
"""How many times as long every fourth page is where both the client and the proxy compact."""
AGENT_SETTINGS = ROOT / "configs" / "coding-agents.env"


@dataclass
class Stage:
    """A proxy process before a scripted model, for one client."""

    client: Client
    model: ScriptedModel
    proxy: Command
    url: str
    processes: AsyncExitStack
    settings: Mapping[str, str]

    async def play(self, scenario: Scenario) -> Finding:
        """Let the client do what the scenario asks for, and judge it."""
        if reason := self.client.without.get(scenario.name):
            return Finding(NOT_APPLICABLE, reason)
        began = time.monotonic()
        with TemporaryDirectory(prefix="compat-") as name:
            seen = await self._watch(scenario, Path(name))
        wrong = list(dict.fromkeys(scenario.complaints(self.client, seen)))
        return Finding(
            FAILED if wrong else OK,
            "; ".join(wrong),
            seen.script.taken,
            seen.compactions,
            seen.script.refused,
            len(seen.requests),
            round(time.monotonic() - began, 1),
            len(seen.script.own_ids),
            seen.script.folded,
            len(seen.script.side_query_ids),
            seen.script.double,
        )

    async def _watch(self, scenario: Scenario, place: Path) -> Observed:
        """Run the driver in a furnished folder and gather what was seen of it."""
        folder = place / "work"
        folder.mkdir()
        fourth = LONG_PAGE if scenario.own_limit else 1
        furnish(folder, self.client.page_tokens, self.client.steps, fourth)
        script = self.model.script = scenario.script(self.client, folder)
        already = len(self.proxy.err)
        log = INSTALLED / "logs" / f"{self.client.name}-{scenario.name}.txt"
        restarting = asyncio.create_task(self._restart_in_the_middle(script))
        code = await self._drive(scenario, folder, log)
        is_restarted = restarting.done() and restarting.result()
        restarting.cancel()
        if script.endless:
            await first_of(script.left.wait(), asyncio.sleep(SECONDS_TO_LEAVE))
        await self._until_logged()
        lines = [line for line in log_of(self.proxy.err[already:]) if line.get("method") == "POST"]
        said = log.read_text(encoding="utf-8", errors="replace")
        proof = (folder / PROOF).exists()
        return Observed(said, code, lines, script, self.client.window, proof, is_restarted)

    async def _restart_in_the_middle(self, script: Script) -> bool:
        """Stop the proxy when half of a long script is done and start it again, if that is due."""
        half = len(script.steps) // 2
        if not self.client.restarts or half < LONG_STEPS:
            return False
        await eventually(lambda: script.taken >= half, SECONDS_TO_HALF)
        before = self.proxy
        before.process.terminate()
        await before.ended(SECONDS_TO_STOP)
        self.proxy = await self.processes.enter_async_context(
            running_command("serve", **self.settings)
        )
        # What was said before belongs to the same run.
        self.proxy.err[:0] = before.err
        await self.proxy.said("server started", times=2)
        return script.taken < len(script.steps)

    async def _drive(self, scenario: Scenario, folder: Path, log: Path) -> int | None:
        """Run the driver to its end, or end it when its time is over or it is to be aborted."""
        seconds = scenario.seconds + self.client.start_seconds
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *command_of(self.client, scenario.name),
                cwd=folder,
                env=self._environment(scenario, folder),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return await asyncio.wait_for(self._ended(process), seconds)
            except TimeoutError:
                return None
            finally:
                end(process.pid, signal.SIGKILL)
                await process.wait()
                end_daemons(folder.parent)

    async def _ended(self, process: asyncio.subprocess.Process) -> int:
        """Wait for the end; a program that cannot abort by itself gets Ctrl-C while it listens."""
        script = self.model.script
        if script.endless and self.client.kind not in LEAVE_BY_THEMSELVES:
            await first_of(script.speaking.wait(), process.wait())
            end(process.pid, signal.SIGINT)
            if not await first_of(script.left.wait(), asyncio.sleep(SECONDS_TO_LEAVE)):
                end(process.pid, signal.SIGTERM)
            end(process.pid, signal.SIGKILL)
        return await process.wait()

    async def _until_logged(self) -> None:
        """Wait until the proxy has written down all that went before."""
        mark = f"mark-{time.monotonic_ns()}"
        await ask(f"{self.url}/v1/models", headers={"x-request-id": mark})
        await eventually(lambda: any(mark in line for line in self.proxy.err), SECONDS_TO_LEAVE)

    def _environment(self, scenario: Scenario, folder: Path) -> dict[str, str]:
        """Nothing of this machine's but a path; a home of its own, and what drivers are told."""
        home = folder.parent / "home"
        home.mkdir(exist_ok=True)
        bins = (bin_of(self.client), NODE_BIN, os.defpath)
        told = {"PROXY": f"{self.url}/v1", "KEY": "sk-compat", "MODEL": NAME}
        return {
            **told,
            "TASK": scenario.task,
            "STEPS": str(self.client.steps),
            "WINDOW": str(self.client.window),
            "OWN_LIMIT": str(self.client.window * scenario.own_limit // 100),
            "PATH": os.pathsep.join(map(str, bins)),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "NO_PROXY": "127.0.0.1",
            "DO_NOT_TRACK": "1",
        }


def bin_of(client: Client) -> Path:
    """The folder of a client's programs."""
    return client.home / ("node_modules/.bin" if client.from_npm else "bin")


def command_of(client: Client, scenario: str) -> list[str]:
    """Return how its driver is started: a library's by its own interpreter."""
    if client.driver.endswith(".mjs"):
        # Node looks for packages beside the file that imports them.
        beside = shutil.copy(client.driver_file, client.home / client.driver)
        return [str(NODE_BIN / "node"), str(beside), scenario]
    own = str(client.home / "bin" / "python")
    return [own if client.kind == "library" else sys.executable, str(client.driver_file), scenario]


def log_of(lines: list[str]) -> list[dict[str, Any]]:
    """Read the proxy's log lines."""
    return [json.loads(line) for line in lines if line.startswith("{")]


def end(group: int, number: signal.Signals) -> None:
    """Send a signal to a driver and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def settings_for(client: Client) -> dict[str, str]:
    """Return the proxy's settings: for coding agents those that configs/ has for them."""
    if client.kind != "coding agent":
        return {}
    lines = AGENT_SETTINGS.read_text(encoding="utf-8").splitlines()
    parted = (line.partition("=") for line in lines if line.startswith(PREFIX))
    return {name.removeprefix(PREFIX): value for name, _, value in parted}


def end_daemons(place: Path) -> None:
    """End what a client left running in a session of its own: only processes with this home."""
    mark = f"HOME={place}/home".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGKILL)


@asynccontextmanager
async def stage_for(client: Client) -> AsyncIterator[Stage]:
    """Start a model and a proxy for one client."""
    model = ScriptedModel(client.window, Script((), Choice(), Choice()))
    async with fake_model(model) as server, AsyncExitStack() as processes:
        store = processes.enter_context(TemporaryDirectory(prefix="compat-store-"))
        settings = {
            "STORE_URL": f"sqlite:///{store}/chat-proxy.db" if client.restarts else "memory:",
            "SERVER_PORT": str(free_port()),
            "UPSTREAM_BASE_URL": server.url,
            **settings_for(client),
        }
        proxy = await processes.enter_async_context(running_command("serve", **settings))
        yield Stage(client, model, proxy, await proxy.url(), processes, settings)


def free_port() -> int:
    """Return a port that is free now, for a proxy that comes back to it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
