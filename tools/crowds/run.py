"""Many clients of a proxy in a process of its own, and what they cost it.

`python -m tools.crowds.run` measures them at full size: 10,000 aborts, 2,000 streams, 10,000 idle.
"""

import asyncio
import json
import os
import re
import resource
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from tests.support.command import ROOT, ask, running_command
from tests.support.fake_model import (
    Behaviour,
    FakeModel,
    Line,
    Received,
    begin_stream,
    delta,
    fake_model,
    on_chat,
)
from tests.support.live import RawClient, chat_body, chat_request
from tools.crowds.idle import longest_sweep_step

KILOBYTE = 1024
AT_ONCE = 40
ABORTS = 10_000
WARM_UP = 10_000
STREAMS = 2_000
IDLE = 10_000
WORD_SECONDS = 5.0
STREAM = chat_request(chat_body(stream=True))


@dataclass(frozen=True, slots=True)
class Figures:
    """What a process has: resident bytes, file descriptors, asyncio tasks."""

    rss: int
    descriptors: int
    tasks: int


@dataclass(frozen=True, slots=True)
class ProxyProcess:
    """A proxy that shares nothing with the test but sockets."""

    pid: int
    port: int
    model: FakeModel

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def rss(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - only counted

    async def figures(self) -> Figures:
        text = (await ask(f"{self.url}/metrics")).text
        found = re.search(r"^chat_proxy_tasks (\S+)$", text, re.MULTILINE)
        assert found
        return Figures(self.rss(), self.descriptors(), int(float(found[1])))

    async def connect(self) -> RawClient:
        return RawClient(*await asyncio.open_connection("127.0.0.1", self.port))

    async def settled(self, start: Figures, seconds: float = 20) -> Figures:
        """Wait until nothing is left but what was there before."""
        async with asyncio.timeout(seconds):
            while True:
                now = await self.figures()
                if now.descriptors <= start.descriptors and now.tasks <= start.tasks:
                    return now
                await asyncio.sleep(0.2)


class Holding:
    """A model that keeps its clients waiting, for the first word or for the next."""

    def __init__(self, word_seconds: float = WORD_SECONDS) -> None:
        self.asked: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._word_seconds = word_seconds

    async def __call__(self, received: Received, line: Line) -> None:
        self.asked[received.header("x-request-id") or ""].set()
        if b'"stream"' not in received.body:
            await line.until_closed()
            return
        await begin_stream(line)
        gone = asyncio.create_task(line.until_closed())
        while not gone.done():
            await line.chunk(delta("word "))
            await asyncio.wait([gone], timeout=self._word_seconds)


@asynccontextmanager
async def proxy_process(
    behaviour: Behaviour, descriptors: int = 0, **variables: str
) -> AsyncIterator[ProxyProcess]:
    """Run a proxy before a model, with as many file descriptors as given and no more."""
    quiet = {"STORE_URL": "memory:", "LOG_LEVEL": "info", "UPSTREAM_KEEP_ALIVE_SECONDS": "0.5"}
    async with (
        fake_model(on_chat(behaviour)) as model,
        running_command("serve", UPSTREAM_BASE_URL=model.url, **{**quiet, **variables}) as command,
    ):
        if descriptors:
            limits = (descriptors, descriptors)
            resource.prlimit(command.process.pid, resource.RLIMIT_NOFILE, limits)
        port = int((await command.url()).rpartition(":")[2])
        yield ProxyProcess(command.process.pid, port, model)


# Clients that leave


async def leave(proxy: ProxyProcess, holding: Holding, phase: str, name: str) -> None:
    """Ask and go: within the body, before the answer, or within it."""
    client = await proxy.connect()
    body = chat_body(stream=True) if phase == "stream" else chat_body()
    request = chat_request(body, f"x-request-id: {name}")
    await client.send(request[:-5] if phase == "body" else request)
    if phase == "ttfb":
        await holding.asked[name].wait()
    elif phase == "stream":
        await client.reader.readuntil(b"word ")
    holding.asked.pop(name, None)
    client.leave()


async def leave_often(proxy: ProxyProcess, holding: Holding, times: int) -> None:
    """Let many clients leave, in each phase as many."""
    phases: Iterator[tuple[int, str]] = enumerate(islice(cycle(("body", "ttfb", "stream")), times))

    async def one_after_another() -> None:
        for number, phase in phases:
            await leave(proxy, holding, phase, f"{phase}-{number}")

    await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))
    proxy.model.requests.clear()


async def aborts(times: int, warm_up: int) -> tuple[Figures, Figures]:
    """Return what the proxy has before and after so many aborts."""
    holding = Holding()
    async with proxy_process(holding) as proxy:
        start = await proxy.figures()
        await leave_often(proxy, holding, warm_up)
        before = await proxy.settled(start)
        await leave_often(proxy, holding, times)
        after = await proxy.settled(before)
    return before, after


# Clients that stay


@dataclass(frozen=True, slots=True)
class Waits:
    """How long answers took, and how late the asking process itself was, sorted, in seconds."""

    answers: list[float]
    lateness: list[float]

    @property
    def p99(self) -> float:
        return self.answers[len(self.answers) * 99 // 100]

    @property
    def late_p99(self) -> float:
        return self.lateness[len(self.lateness) * 99 // 100]


@asynccontextmanager
async def pinged(port: int) -> AsyncIterator[list[Waits]]:
    """Ask after the proxy's health all the time; the waits are there when the block has ended."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("pinger.py")),
        str(port),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    found: list[Waits] = []
    try:
        await process.stdout.readline()
        yield found
        told, _ = await process.communicate(b"")
        answers, lateness = json.loads(told)
        found.append(Waits(sorted(answers), sorted(lateness)))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def open_streams(
    proxy: ProxyProcess, count: int, request: bytes = STREAM
) -> AsyncIterator[list[RawClient]]:
    """Have so many clients in the middle of their answers."""
    clients: list[RawClient] = []
    numbers = iter(range(count))

    async def one_after_another() -> None:
        for _ in numbers:
            client = await proxy.connect()
            clients.append(client)
            await client.send(request)
            await client.reader.readuntil(b"word ")

    try:
        await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))
        yield clients
    finally:
        for client in clients:
            client.leave()


@dataclass(frozen=True, slots=True)
class Crowd:
    """What so many open streams cost: bytes each, and how long others waited meanwhile."""

    bytes_each: float
    waits: Waits
    new_request_seconds: list[float]


async def crowd(count: int, warm_up: int, seconds: float) -> Crowd:
    """Open so many streams and look at what they cost while they are open."""
    holding = Holding()
    async with proxy_process(holding) as proxy:
        start = await proxy.figures()
        async with open_streams(proxy, warm_up):
            await proxy.figures()
        before = await proxy.settled(start)
        async with open_streams(proxy, count):
            async with pinged(proxy.port) as waits:
                fresh = [await seconds_to_first_word(proxy) for _ in range(int(seconds * 4))]
            after = await proxy.figures()
        await proxy.settled(start)
    return Crowd((after.rss - before.rss) / count, waits[0], sorted(fresh))


async def seconds_to_first_word(proxy: ProxyProcess) -> float:
    """Let a newcomer ask for a stream."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with open_streams(proxy, 1):
        took = loop.time() - began
    await asyncio.sleep(0.2)
    return took


async def main() -> None:
    before, after = await aborts(ABORTS, WARM_UP)
    each = (after.rss - before.rss) / ABORTS
    sys.stdout.write(f"{ABORTS} aborts: {each:.1f} bytes each; {before} then {after}\n")
    found = await crowd(STREAMS, 0, 10)
    sys.stdout.write(
        f"{STREAMS} streams: {found.bytes_each / KILOBYTE:.1f} KB each; /healthz p99 "
        f"{found.waits.p99 * 1000:.1f} ms, worst {found.waits.answers[-1] * 1000:.0f} ms; the "
        f"asking process itself was late by {found.waits.late_p99 * 1000:.1f} ms at p99; new "
        f"streams began within {found.new_request_seconds[-1] * 1000:.0f} ms\n"
    )
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    step = await longest_sweep_step(IDLE)
    sys.stdout.write(f"{IDLE} idle upstream connections: closed in steps of {step * 1000:.1f} ms\n")


if __name__ == "__main__":
    asyncio.run(main())
