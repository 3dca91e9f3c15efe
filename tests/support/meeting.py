"""A fake model, a proxy and a client that meet: what most tests of faults begin with."""

import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.fake_model import Behaviour, FakeModel, Line, fake_model, on_chat, polite
from tests.support.figures import figure_in
from tests.support.live import Proxy, RawAnswer, RawClient, raw_client, running_proxy
from tests.support.wires.apis import CHAT, Api


@dataclass
class Meeting:
    """The three of them."""

    model: FakeModel
    proxy: Proxy
    client: RawClient

    api = CHAT
    """The API that the client speaks."""

    def __post_init__(self) -> None:
        self._before = self._page()

    async def ask(self, **fields: Any) -> RawAnswer:
        """Send a chat request and return the answer."""
        await self.client.send(self.api.http(self.api.body(**fields)))
        return await self.client.answer()

    async def stream(self) -> RawAnswer:
        """Ask for a stream and read it to its end."""
        return await self.ask(stream=True)

    @property
    def chats(self) -> int:
        """How often the model was asked to chat."""
        return sum(request.method == "POST" for request in self.model.requests)

    def figure(self, name: str) -> float:
        """Return how much a metric grew since they met; its name may come with labels."""
        return figure_in(self._page(), name) - figure_in(self._before, name)

    def answered(self, status: int, code: str = "") -> float:
        """Return how many chats were answered with this status and error code."""
        route = self.api.path.partition("?")[0]
        labels = f'code="{code}",route="{route}",status="{status}"'
        return self.figure(f"chat_proxy_requests_total{{{labels}}}")

    def _page(self) -> str:
        return self.proxy.services.metrics.render().decode()


@asynccontextmanager
async def meeting(behaviour: Behaviour, **sections: Any) -> AsyncIterator[Meeting]:
    """Let them meet; the model behaves so in chats and politely elsewhere.

    The client speaks chat completions, or another `api`.
    """
    api: Api = sections.pop("api", CHAT)
    async with (
        fake_model(on_chat(behaviour)) as model,
        running_proxy(model.url, **sections) as proxy,
        raw_client(proxy) as client,
    ):
        they = Meeting(model, proxy, client)
        they.api = api
        yield they


class Stage:
    """A model and a proxy for many meetings, one after another: starting them takes time."""

    def __init__(self, model: FakeModel, proxy: Proxy) -> None:
        self._model = model
        self._proxy = proxy

    @asynccontextmanager
    async def __call__(self, behaviour: Behaviour, api: Api = CHAT) -> AsyncIterator[Meeting]:
        self._model.behaviour = on_chat(behaviour)
        self._model.requests.clear()
        async with raw_client(self._proxy) as client:
            they = Meeting(self._model, self._proxy, client)
            they.api = api
            yield they


@asynccontextmanager
async def common_stage() -> AsyncIterator[Stage]:
    """Set up a stage; what happened in one meeting leaves nothing behind for the next."""
    lonely = {"keep_alive_seconds": 1e-6, "breaker_failures": 0}
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, upstream=lonely) as proxy,
    ):
        yield Stage(model, proxy)


def cut(line: Line) -> None:
    """Break the connection with a RST, whatever was read of it."""
    sock = line.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.writer.transport.abort()


@contextmanager
def black_hole() -> Iterator[str]:
    """The address of a port that takes no connection and refuses none."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        crowd = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            crowd.append(one)
            one.connect_ex(address)
        try:
            yield f"http://127.0.0.1:{address[1]}/v1"
        finally:
            for one in crowd:
                one.close()
