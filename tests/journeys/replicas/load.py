"""Clients that never stop asking, and how long each of them waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from tests.journeys.replicas.fleet import Fleet
from tests.journeys.summaries.talking import SYSTEM, body_of, post, turns
from tests.support.clock import own_time
from tests.support.live import Proxy, raw_client

CLIENTS_PER_PROXY = 2
PAUSE_SECONDS = 0.03
_numbers = count(1_000, 100)


@dataclass(frozen=True)
class Wait:
    """One request: when it was sent, how long it took, how it was answered."""

    at: float
    seconds: float
    status: int


@dataclass
class Load:
    """All requests so far, by `own_time`."""

    waits: list[Wait] = field(default_factory=list)

    def between(self, start: float, end: float) -> list[float]:
        """The seconds of all requests that were under way in this time."""
        return [it.seconds for it in self.waits if it.at < end and it.at + it.seconds > start]

    def within(self, start: float, end: float) -> list[float]:
        """The seconds of all requests that were sent in this time."""
        return [it.seconds for it in self.waits if start <= it.at < end]

    async def ask(self, proxy: Proxy) -> None:
        """Send conversations that nobody has seen before, so that the store is asked each time."""
        async with raw_client(proxy) as line:
            while True:
                body = body_of([SYSTEM, *turns(7, first=next(_numbers))[:-1]])
                at = own_time()
                answer = await post(line, body)
                self.waits.append(Wait(at, own_time() - at, answer.status))
                await asyncio.sleep(PAUSE_SECONDS)


@asynccontextmanager
async def load_on(fleet: Fleet) -> AsyncIterator[Load]:
    """Let clients ask all proxies until the block ends; none of them may fail."""
    load = Load()
    clients = [
        asyncio.create_task(load.ask(talk.proxy))
        for talk in fleet.talks
        for _ in range(CLIENTS_PER_PROXY)
    ]
    try:
        yield load
    finally:
        for client in clients:
            client.cancel()
        ended = await asyncio.gather(*clients, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended
