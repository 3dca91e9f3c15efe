"""A polite tenant alone, then beside a malicious one; what it waited and lost."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import ROOT, running_command
from tools.malice.attacks import ATTACKS, Target, repeat

POLITE, MALLORY = "sk-polite-tenant-key", "sk-malicious-tenant-key"
WARM_UP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the polite tenant saw: its waits in seconds, and what it lost."""

    seconds: list[float]
    lost: list[str]

    @property
    def p99(self) -> float:
        """The wait that one answer in a hundred exceeds."""
        return sorted(self.seconds)[len(self.seconds) * 99 // 100]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Both measurements, the proxy's memory, and what the attacker was told."""

    quiet: Seen
    attacked: Seen
    rss_before: int
    rss_most: int
    statuses: dict[int, int]

    @property
    def ratio(self) -> float:
        """How many times as long the slowest waits were under attack."""
        return self.attacked.p99 / self.quiet.p99


@asynccontextmanager
async def script(name: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a module of this folder in a process of its own until the block ends."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"tools.malice.{name}", *arguments, cwd=ROOT, stdin=pipe, stdout=pipe
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def polite(port: int, pid: int, seconds: float) -> Seen:
    """Let the polite tenant ask for so long."""
    async with script("polite", str(port), str(pid), POLITE, str(seconds)) as process:
        told, _ = await process.communicate()
    return Seen(*json.loads(told))


async def malice(quiet_seconds: float, attack_seconds: float) -> Outcome:
    """Measure the polite tenant alone, then under attack."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "AUTH_KEYS": f"{POLITE},{MALLORY}",
            "STORE_URL": f"sqlite:///{folder}/chat-proxy.db",
            "LOG_LEVEL": "info",
        }
        async with script("model") as model:
            assert model.stdout is not None
            url = (await model.stdout.readline()).decode().strip()
            async with running_command("serve", UPSTREAM_BASE_URL=url, **settings) as command:
                port = int((await command.url()).rpartition(":")[2])
                return await measured(port, command.process.pid, quiet_seconds, attack_seconds)


async def measured(port: int, pid: int, quiet_seconds: float, attack_seconds: float) -> Outcome:
    """Measure at a running proxy."""
    await polite(port, pid, WARM_UP_SECONDS)
    quiet = await polite(port, pid, quiet_seconds)
    before = rss(pid)
    target = Target(port, MALLORY)
    tasks = [
        asyncio.create_task(repeat(attack, target)) for attack, many in ATTACKS for _ in range(many)
    ]
    most = [before]
    tasks.append(asyncio.create_task(watch(pid, most)))
    await asyncio.sleep(1)
    attacked = await polite(port, pid, attack_seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await target.leave()
    return Outcome(quiet, attacked, before, most[0], target.statuses)


async def watch(pid: int, most: list[int]) -> None:
    """Remember the most memory that the proxy had."""
    while True:
        most[0] = max(most[0], rss(pid))
        await asyncio.sleep(0.05)


def rss(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
