"""One run: a proxy as a process of its own, the misbehaving upstream, and a crowd of clients."""

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.support.command import ROOT, environment
from tests.support.live import eventually
from tools.crosstalk.clients import POLITE, Client, Planner
from tools.crosstalk.findings import Findings
from tools.crosstalk.ledger import Ledger
from tools.crosstalk.looking_proxy import Looks
from tools.crosstalk.upstream.server import Upstream, running_upstream

CROWD_SECONDS = 2.0
TOLD_SECONDS = 5.0
REST_SECONDS = 1.0
LIMIT_SECONDS = "2"
"""Of the proxy: how long it waits for an upstream that says nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """What one run is to be."""

    seconds: float = 600
    fewest_clients: int = 16
    most_clients: int = 64
    seed: int = 1


@dataclass
class Run:
    """All who take part, and what they saw."""

    options: Options
    upstream: Upstream
    findings: Findings
    proxy_port: int
    began: float
    crowd: int

    @property
    def seconds(self) -> float:
        """How long the run has taken so far."""
        return time.monotonic() - self.began

    async def load(self) -> None:
        """Let a crowd that grows and shrinks talk until the time is over."""
        changing = asyncio.create_task(self._change_crowd())
        numbers = range(self.options.most_clients)
        await asyncio.gather(*(self._talk(number) for number in numbers))
        changing.cancel()
        await asyncio.wait([changing])

    async def _talk(self, number: int) -> None:
        client = Client(self.proxy_port, Planner(self.options.seed, number), self.findings)
        while self.seconds < self.options.seconds:
            if number < self.crowd:
                await client.talk()
            else:
                await asyncio.sleep(0.1)
        client.leave()

    async def _change_crowd(self) -> None:
        dice = Random(self.options.seed)
        while True:
            self.crowd = dice.randint(self.options.fewest_clients, self.options.most_clients)
            await asyncio.sleep(CROWD_SECONDS)

    async def check_at_rest(self) -> None:
        """Complain unless everybody is answered after all late bytes were sent."""
        self.upstream.open_lines.greet_no_more()
        await asyncio.sleep(REST_SECONDS)
        seen = Findings(Ledger())
        number = self.options.most_clients
        client = Client(self.proxy_port, Planner(self.options.seed, number), seen)
        for _ in range(number):
            await client.send(client.planner.request(POLITE))
        client.leave()
        if seen.ends != Counter({(POLITE, "own"): number}):
            self.findings.complain(f"at rest, polite requests ended so: {dict(seen.ends)}")


Told = Callable[[Run], None]


async def crosstalk(options: Options, told: Told) -> Run:
    """Run it; the complaints of the findings say what is wrong."""
    ledger = Ledger()
    with tempfile.TemporaryDirectory(prefix="crosstalk-") as folder:
        log, looks = Path(folder) / "log", Path(folder) / "looks"
        async with (
            running_upstream(ledger, Looks.create(looks)) as upstream,
            running_proxy(upstream.port, log, looks) as port,
        ):
            findings = Findings(ledger)
            run = Run(options, upstream, findings, port, time.monotonic(), options.most_clients)
            telling = asyncio.create_task(_tell(run, told))
            await run.load()
            telling.cancel()
            await asyncio.wait([telling])
            await run.check_at_rest()
        for sentence, count in errors_in(log).items():
            findings.complain(f"the proxy logged {count} times: {sentence}")
    return run


async def _tell(run: Run, told: Told) -> None:
    while True:
        await asyncio.sleep(TOLD_SECONDS)
        told(run)


@asynccontextmanager
async def running_proxy(upstream_port: int, log: Path, looks: Path) -> AsyncIterator[int]:
    """Run the proxy until the block ends; give its port."""
    settings = {
        "UPSTREAM_BASE_URL": f"http://127.0.0.1:{upstream_port}/v1",
        "UPSTREAM_FIRST_BYTE_TIMEOUT_SECONDS": LIMIT_SECONDS,
        "UPSTREAM_IDLE_TIMEOUT_SECONDS": LIMIT_SECONDS,
        "UPSTREAM_BREAKER_FAILURES": "0",
        "STORE_URL": "memory:",
        "LOG_FORMAT": "json",
    }
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tools.crosstalk.looking_proxy", str(looks)),
            env=environment(settings),
            cwd=ROOT,
            stderr=file,
        )
    try:
        await eventually(lambda: process.returncode is not None or port_in(log), seconds=60)
        yield port_in(log)
        if process.returncode is not None:
            raise RuntimeError(f"the proxy ended with {process.returncode}")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def port_in(log: Path) -> int:
    """Return the port that the proxy listens on, 0 before it does."""
    for line in lines_of(log):
        if line["message"] == "server started":
            return int(str(line["address"]).rpartition(":")[2])
    return 0


def errors_in(log: Path) -> Counter[str]:
    """Count what the proxy logged as an error."""
    return Counter(line["message"] for line in lines_of(log) if line["level"] == "error")


def lines_of(log: Path) -> list[dict[str, str]]:
    """Return the lines of the proxy's log."""
    with log.open() as file:
        return [json.loads(line) for line in file if line.startswith("{") and line.endswith("}\n")]
