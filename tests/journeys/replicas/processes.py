"""Proxies as processes of their own, which a test may kill."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import ROOT, environment
from tests.support.live import eventually

# Forks of one process: importing the proxy three times would take most of a test's time. Each
# argument names the file for a proxy's log; the first is the lease's length in seconds.
_NURSERY = """
import os, signal, sys
import chat_proxy.cli.main
from chat_proxy.proxy.summaries import jobs
jobs.LEASE_SECONDS = float(sys.argv[1])
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for log in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), 2)
        chat_proxy.cli.main.main(["serve"])
    print(child, flush=True)
sys.stdin.read()
"""


@dataclass
class Process:
    """A proxy that can be killed."""

    pid: int
    url: str

    def kill(self) -> None:
        """End it without a word."""
        os.kill(self.pid, signal.SIGKILL)


@asynccontextmanager
async def running_processes(
    count: int, folder: Path, lease_seconds: float, **variables: str
) -> AsyncIterator[list[Process]]:
    """Run so many proxies until the block ends; then all are killed."""
    logs = [folder / f"proxy-{number}.log" for number in range(count)]
    nursery = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _NURSERY, str(lease_seconds), *map(str, logs)),
        env=environment(variables),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert nursery.stdout
    try:
        pids = [int(await nursery.stdout.readline()) for _ in logs]
        await eventually(lambda: all(map(_address_in, logs)))
        addresses = map(_address_in, logs)
        yield [Process(pid, url) for pid, url in zip(pids, addresses, strict=True)]
    finally:
        os.killpg(nursery.pid, signal.SIGKILL)
        await nursery.wait()


def _address_in(log: Path) -> str:
    """Return where a proxy serves, once its log says so."""
    lines = log.read_text().splitlines() if log.exists() else []
    started = [line for line in lines if '"server started"' in line and line.endswith("}")]
    return str(json.loads(started[0])["address"]) if started else ""
