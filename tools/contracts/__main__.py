"""`python -m tools.contracts`: ask the proxy, an engine alone and neighbours the same questions.

Prints a table in Markdown: a row for each parameter, a column for each server. A neighbour is a
program of its own: `--server NAME='COMMAND'` starts it with {engine} (the engine's URL, ending in
/v1) and {port} in its command.
"""

import argparse
import asyncio
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from anthropic import AsyncAnthropic

from tests.support.fake_model import FakeModel, fake_model
from tests.support.wires.engines import Desk, Engine, open_desk
from tools.contracts.probes import PROBES, Probe, verdict

SECONDS_TO_START = 240
SECONDS_TO_ANSWER = 30
Opening = Callable[[Engine], AbstractAsyncContextManager[Desk]]


@asynccontextmanager
async def desk_before(url: str, engine: Engine) -> AsyncIterator[Desk]:
    """The SDK before a server that is running already."""
    async with AsyncAnthropic(
        base_url=url, api_key="sk-probe", max_retries=0, timeout=SECONDS_TO_ANSWER
    ) as sdk:
        yield Desk(engine, None, sdk)


@asynccontextmanager
async def neighbour(command: str, model: FakeModel) -> AsyncIterator[str]:
    """Run a server before the engine until the block ends; yield its URL."""
    port = free_port()
    words = shlex.split(command.format(engine=model.url, port=port))
    process = await asyncio.create_subprocess_exec(
        *words,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await until_open(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


async def until_open(port: int) -> None:
    """Wait until somebody listens."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.5)
        else:
            writer.close()
            return
    raise TimeoutError(f"nothing listens on port {port}")


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def column_of(opening: Opening) -> list[str]:
    """Return the verdict of every probe, each with an engine that was asked nothing before."""
    found = []
    for probe in PROBES:
        async with opening(Engine()) as desk:
            found.append(await in_time(probe, desk))
    return found


async def in_time(probe: Probe, desk: Desk) -> str:
    """Return a probe's verdict, or that the server did not answer."""
    try:
        async with asyncio.timeout(2 * SECONDS_TO_ANSWER):
            return await verdict(probe, desk)
    except TimeoutError:
        return "no answer"


async def run(servers: dict[str, str]) -> None:
    """Ask all servers and print the table."""
    columns = {"chat-proxy": await column_of(open_desk)}
    async with fake_model(Engine()) as model:

        @asynccontextmanager
        async def behind(url: str, engine: Engine) -> AsyncIterator[Desk]:
            model.behaviour = engine
            async with desk_before(url, engine) as desk:
                yield desk

        alone = model.url.removesuffix("/v1")
        columns["engine alone"] = await column_of(partial(behind, alone))
        for name, command in servers.items():
            async with neighbour(command, model) as url:
                columns[name] = await column_of(partial(behind, url))
    sys.stdout.write(table_of(columns))


def table_of(columns: dict[str, list[str]]) -> str:
    """Return the verdicts as a table."""
    lines = [f"| parameter | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for number, probe in enumerate(PROBES):
        cells = [column[number] for column in columns.values()]
        lines.append(f"| {probe.parameter} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read which neighbours there are, and ask them."""
    parser = argparse.ArgumentParser(prog="python -m tools.contracts", description=__doc__)
    parser.add_argument("--server", action="append", default=[], metavar="NAME=COMMAND")
    servers = dict(it.split("=", 1) for it in parser.parse_args().server)
    asyncio.run(run(servers))


if __name__ == "__main__":
    main()
