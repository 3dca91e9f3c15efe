"""Several proxies in front of one model and behind a client that takes them in turn."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from typing import Any

from tests.journeys.summaries.talking import WINDOW, Talk, talking_to
from tests.journeys.trimming.growing import Asked
from tests.support.fake_model import fake_model
from tests.support.redis_server import RedisServer
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields

SECRET = "the same for all who share it"


def store_in(server: RedisServer) -> dict[str, Any]:
    """The section that names a store for several proxies."""
    return {"url": server.url, "secret": SECRET}


@dataclass
class Fleet:
    """Proxies that know each other by their store only."""

    brain: SummaryModel
    talks: list[Talk]
    asked: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._turns = cycle(self.talks)

    async def ask(self, messages: Sequence[Fields]) -> Asked:
        """Send a history to the proxy whose turn it is, and return what became of it."""
        self.asked.append(await next(self._turns).ask(messages))
        return self.asked[-1]

    async def ask_all(self, messages: Sequence[Fields]) -> list[Asked]:
        """Send a history to each proxy, one after another."""
        return [await self.ask(messages) for _ in self.talks]

    def broken(self) -> list[str]:
        """Return the requests whose prompt does not begin with the one before, by their ids."""
        pairs = pairwise(self.asked)
        return [new.headers["x-request-id"] for old, new in pairs if not old.begins(new)]

    def store_errors(self, kind: str) -> float:
        """Return how often the stores of all proxies had this fault."""
        return sum(figure_of(talk, "chat_proxy_store_error_total", kind) for talk in self.talks)


def figure_of(talk: Talk, name: str, kind: str) -> float:
    """Return the sum of a proxy's figures of one name and kind."""
    lines = talk.proxy.services.metrics.render().decode().splitlines()
    found = (line for line in lines if line.startswith(name) and f'kind="{kind}"' in line)
    return sum(float(line.rpartition(" ")[2]) for line in found)


@asynccontextmanager
async def fleet_of(
    count: int, brain: SummaryModel, store: dict[str, Any], window: int = WINDOW, **sections: Any
) -> AsyncIterator[Fleet]:
    """Run so many proxies on one store; nothing is prepared unless told."""
    async with fake_model(brain) as model, AsyncExitStack() as stack:
        talks = [
            await stack.enter_async_context(
                talking_to(model, window=window, store=store, **sections)
            )
            for _ in range(count)
        ]
        yield Fleet(brain, talks)
