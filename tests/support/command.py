"""The proxy as a process of its own, with real signals, exit codes and standard streams."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parent.parent.parent
BUSY_SECONDS = 200.0
"""For what a process does in few seconds, if it gets a core; nothing is shown by this figure."""
OF_THE_MACHINE = {"the event loop is blocked", "the event loop runs again"}


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Command:
    """A command that is running; what it says is kept."""

    process: asyncio.subprocess.Process
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)

    async def said(
        self, sentence: str, times: int = 1, seconds: float = BUSY_SECONDS
    ) -> list[dict[str, Any]]:
        """Wait until the log has this sentence so many times; return those lines."""
        async with asyncio.timeout(seconds):
            while True:
                found = [line for line in self.log() if line["message"] == sentence]
                if len(found) >= times:
                    return found
                assert self.process.returncode is None, self.err
                await asyncio.sleep(0.02)

    async def url(self) -> str:
        """Wait until it serves, and return where."""
        return str((await self.said("server started"))[0]["address"])

    def log(self) -> list[dict[str, Any]]:
        """The log lines so far, without those that tell how busy the machine is."""
        lines = [json.loads(line) for line in self.err if line.startswith("{")]
        return [line for line in lines if line["message"] not in OF_THE_MACHINE]

    async def ended(self, seconds: float = BUSY_SECONDS) -> int:
        """Wait for the end and return the exit code."""
        async with asyncio.timeout(seconds):
            return await self.process.wait()


@asynccontextmanager
async def running_command(
    *arguments: str, cwd: str = str(ROOT), **variables: str
) -> AsyncIterator[Command]:
    """Run a command until the block ends; variables are settings without their prefix."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "chat_proxy",
        *arguments,
        env=environment(variables),
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    command = Command(process)
    assert process.stdout
    assert process.stderr
    readers = [
        asyncio.create_task(_keep(process.stdout, command.out)),
        asyncio.create_task(_keep(process.stderr, command.err)),
    ]
    try:
        yield command
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.gather(*readers)
        await process.wait()


async def run_command(
    *arguments: str,
    cwd: Path = ROOT,
    exact: dict[str, str] | None = None,
    typed: bytes = b"",
    **variables: str,
) -> Ended:
    """Run a command to its end; `exact` are variables under their full names."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "chat_proxy",
        *arguments,
        env=environment(variables) | (exact or {}),
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(typed), BUSY_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    said = err.decode().splitlines(keepends=True)
    told = [line for line in said if not any(of in line for of in OF_THE_MACHINE)]
    return Ended(process.returncode, out.decode(), "".join(told))


def environment(variables: dict[str, str]) -> dict[str, str]:
    """This process' environment with the settings in it, on a free port and without a registry."""
    quiet = {
        "REGISTRY_FILE": "/nonexistent/registry.json",
        "ARCHIVE_FILES": "false",
        "STORE_URL": f"sqlite:///{ROOT / 'data' / 'chat-proxy.db'}",
    }
    chosen = {"SERVER_PORT": "0", **quiet, **variables}
    ours = {f"CHAT_PROXY_{name}": value for name, value in chosen.items()}
    # The code of this checkout, from whichever directory the process is started.
    return {**os.environ, "PYTHONPATH": str(ROOT / "app"), **ours}  # noqa: TID251


async def ask(url: str, method: str = "GET", **options: Any) -> httpx.Response:
    """Send one request over a connection of its own."""
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=BUSY_SECONDS) as client:
        return await client.request(method, url, **options)


async def _keep(stream: asyncio.StreamReader, lines: list[str]) -> None:
    while line := await stream.readline():
        lines.append(line.decode())
