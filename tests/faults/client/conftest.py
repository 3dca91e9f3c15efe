"""The proxy for clients of all kinds: one for many requests, or by either server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn

from chat_proxy.cli.serve import listen
from chat_proxy.server import create_app
from tests.faults.faulty import chats, metric
from tests.support.clock import BACKEND, within
from tests.support.fake_model import FakeModel, Received, fake_model, polite
from tests.support.live import Proxy, RawAnswer, eventually, raw_client, running_proxy, settings

Serving = Callable[..., AbstractAsyncContextManager[Proxy]]


@dataclass
class Desk:
    """Takes requests, each on a connection of its own."""

    model: FakeModel
    proxy: Proxy

    async def __call__(self, request: bytes) -> tuple[RawAnswer, list[Received]]:
        """Return the answer and what the upstream got."""
        self.model.requests.clear()
        async with within(10), raw_client(self.proxy) as client:
            await client.send(request)
            return await client.answer(), chats(self.model)

    def figure(self, name: str) -> float:
        """Return a figure by its whole name, labels included."""
        return metric(self.proxy, name)


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return BACKEND


@pytest.fixture(scope="module")
async def ask() -> AsyncIterator[Desk]:
    """A model and a proxy for many requests, one after another: starting them takes time."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        yield Desk(model, proxy)


@asynccontextmanager
async def plain_uvicorn(upstream_url: str, **sections: Any) -> AsyncIterator[Proxy]:
    """Run the app by a server that knows nothing of it."""
    app = create_app(settings(upstream_url, **sections), {})
    server = uvicorn.Server(
        uvicorn.Config(app, http="httptools", ws="none", lifespan="on", log_config=None)
    )
    listener = listen("127.0.0.1", 0)
    task = asyncio.create_task(server._serve([listener]))
    await eventually(lambda: server.started)
    try:
        yield Proxy(listener.getsockname()[1], server, app.state.services)  # type: ignore[arg-type]
    finally:
        app.state.services.drain.interrupt_all()
        server.should_exit = True
        await task


@pytest.fixture(params=[running_proxy, plain_uvicorn], ids=["our server", "plain uvicorn"])
def serving(request: pytest.FixtureRequest) -> Serving:
    """The proxy by either server."""
    chosen: Serving = request.param
    return chosen
