"""`python -m tools.contracts`: ask the proxy, an engine alone and neighbours the same questions.

Prints a table in Markdown for each API: a row for each parameter, a column for each server. A
neighbour is a program of its own: `--responses NAME='COMMAND'` or `--messages NAME='COMMAND'`
starts it with {engine} (the engine's URL without /v1) and {port} in its command. `--write` puts the
tables into docs/contracts.md.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from anthropic import AsyncAnthropic

from tests.support.fake_model import FakeModel, fake_model
from tests.support.wires import messages_engines, responses_engines
from tools.contracts import messages_probes, responses_probes
from tools.contracts.neighbours import neighbour
from tools.contracts.probe import NO_ANSWER, Opening, Probe, cell_of
from tools.contracts.table import PAGE, asked_with, table_of, written

SECONDS_TO_ANSWER = 30
Servers = dict[str, str]
OpenDesk = Callable[[FakeModel, str, bool], Any]


@dataclass(frozen=True)
class Api:
    """An API, its probes, and how they are asked: before the proxy, and before any server."""

    name: str
    probes: Sequence[Probe]
    before_proxy: Opening
    before_server: OpenDesk


@asynccontextmanager
async def messages_proxy(streams: bool) -> AsyncIterator[Any]:
    """The SDK of Messages before the proxy."""
    async with messages_engines.open_desk(messages_engines.Engine(), streams=streams) as desk:
        yield desk


@asynccontextmanager
async def responses_proxy(streams: bool) -> AsyncIterator[Any]:
    """The SDK of Responses before the proxy."""
    async with responses_engines.open_desk(streams=streams) as desk:
        yield desk


@asynccontextmanager
async def messages_server(model: FakeModel, url: str, streams: bool) -> AsyncIterator[Any]:
    """The SDK of Messages before a server that is running already."""
    model.behaviour = engine = messages_engines.Engine()
    async with AsyncAnthropic(
        base_url=url, api_key="sk-one", max_retries=0, timeout=SECONDS_TO_ANSWER
    ) as sdk:
        yield messages_engines.Desk(engine, None, sdk, streams)


@asynccontextmanager
async def responses_server(model: FakeModel, url: str, streams: bool) -> AsyncIterator[Any]:
    """The SDK of Responses before a server that is running already."""
    model.behaviour = engine = responses_engines.Engine()
    desk = responses_engines.Desk(engine, url, streams)
    try:
        yield desk
    finally:
        await desk.close()


RESPONSES = Api("Responses", responses_probes.PROBES, responses_proxy, responses_server)
MESSAGES = Api("Messages", messages_probes.PROBES, messages_proxy, messages_server)


async def column_of(api: Api, opening: Opening) -> list[str]:
    """Return the verdict of every probe."""
    return [await in_time(probe, opening) for probe in api.probes]


async def in_time(probe: Probe, opening: Opening) -> str:
    """Return a probe's verdict, or that the server did not answer."""
    try:
        async with asyncio.timeout(4 * SECONDS_TO_ANSWER):
            return await cell_of(probe, opening)
    except TimeoutError:
        return NO_ANSWER


async def table(api: Api, servers: Servers) -> str:
    """Ask all servers about one API and return the table."""
    columns = {"chat-proxy": await column_of(api, api.before_proxy)}
    async with fake_model(messages_engines.Engine()) as model:
        engine = model.url.removesuffix("/v1")
        before = partial(api.before_server, model)
        columns["engine alone"] = await column_of(api, partial(before, engine))
        for name, command in servers.items():
            async with neighbour(command, engine) as url:
                columns[name] = await column_of(api, partial(before, url))
    return table_of(api.probes, columns)


async def run(asked: Sequence[tuple[Api, Servers]], *, writes: bool) -> None:
    """Ask all servers; print the tables or write them into their page."""
    for api, servers in asked:
        generated = f"{asked_with(datetime.now(UTC).date())}\n{await table(api, servers)}"
        if writes:
            page = written(PAGE.read_text(encoding="utf-8"), api.name, generated)
            PAGE.write_text(page, encoding="utf-8")
        else:
            sys.stdout.write(f"{api.name}\n\n{generated}\n")


def main() -> None:
    """Read which neighbours there are, and ask them."""
    parser = argparse.ArgumentParser(prog="python -m tools.contracts", description=__doc__)
    for api in (RESPONSES, MESSAGES):
        parser.add_argument(
            f"--{api.name.lower()}", action="append", default=[], metavar="NAME=COMMAND"
        )
    parser.add_argument("--write", action="store_true", help="write docs/contracts.md")
    parser.add_argument("--only", choices=("responses", "messages"), help="ask about one API")
    given = parser.parse_args()
    servers = [
        (api, dict(it.split("=", 1) for it in getattr(given, api.name.lower())))
        for api in (RESPONSES, MESSAGES)
        if given.only in (None, api.name.lower())
    ]
    asyncio.run(run(servers, writes=given.write))


if __name__ == "__main__":
    main()
