"""The app as a part of others: under plain uvicorn, with their middleware, below their path."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chat_proxy.cli.serve import listen, server_of
from chat_proxy.errors import BadConfiguration
from chat_proxy.server import create_app
from tests.support.command import ROOT, environment
from tests.support.fake_model import fake_model, polite
from tests.support.live import chat_body, eventually, settings

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
JSON = {"content-type": "application/json"}


class Seen:
    """Somebody's own middleware, which notes the paths that it sees."""

    def __init__(self, app: ASGIApp, paths: list[str]) -> None:
        self._app = app
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._paths.append(scope["path"])
        await self._app(scope, receive, send)


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Serve an app by uvicorn as it is, without a protocol of ours."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    listener = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(server.serve([listener]))
    await eventually(lambda: server.started)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            yield client
    finally:
        server.should_exit = True
        await task


async def test_plain_uvicorn_serves_the_factory() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with fake_model(polite) as model:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "uvicorn", "--factory", "chat_proxy.server:create_app"),
            *("--port", str(port), "--log-level", "warning"),
            cwd=ROOT,
            env=environment({"UPSTREAM_BASE_URL": model.url, "STORE_URL": "memory:"}),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
                await until_ready(client)
                whole = await client.post(CHAT, content=chat_body(), headers=JSON)
                body = chat_body(stream=True)
                streamed = await client.post(CHAT, content=body, headers=JSON)
                page = await client.get("/dashboard")
        finally:
            process.terminate()
            code = await process.wait()

    assert (whole.status_code, streamed.status_code, page.status_code) == (200, 200, 200)
    assert whole.headers["x-chat-proxy-compaction"] == "none"
    assert streamed.text.rstrip().endswith("data: [DONE]")
    assert code in (0, -15)


async def until_ready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.05)


async def test_middleware_of_others_sees_every_request() -> None:
    paths: list[str] = []
    async with fake_model(polite) as model:
        app = create_app(settings(model.url))
        app.add_middleware(Seen, paths=paths)
        async with served(app) as client:
            answer = await client.post(CHAT, content=chat_body(), headers=JSON)
            health = await client.get("/healthz")

    assert (answer.status_code, health.status_code) == (200, 200)
    assert paths == [CHAT, "/healthz"]


async def test_the_app_can_be_mounted_below_a_path() -> None:
    async with fake_model(polite) as model:
        proxy = create_app(settings(model.url))

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            async with proxy.router.lifespan_context(proxy):
                yield

        parent = FastAPI(lifespan=lifespan)
        parent.mount("/llm", proxy)
        async with served(parent) as client:
            chat = await client.post(f"/llm{CHAT}", content=chat_body(), headers=JSON)
            models = await client.get("/llm/v1/models/some%2Fmodel")
            unknown = await client.get("/llm/v1/nothing")
            page = await client.get("/llm/dashboard")
            figures = await client.get("/llm/dashboard/data")
            elsewhere = await client.get(CHAT)

    assert (chat.status_code, page.status_code, figures.status_code) == (200, 200, 200)
    assert model.requests[-1].target == "/v1/models/some%2Fmodel"
    assert models.status_code != 404 or "x-chat-proxy-error" not in models.headers
    assert unknown.headers["x-chat-proxy-error"] == "not_found"
    assert "x-chat-proxy-error" not in elsewhere.headers


async def test_without_settings_an_upstream_key_needs_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DESIGN §9: which address another server listens on is not known here."""
    monkeypatch.setenv("CHAT_PROXY_UPSTREAM_API_KEY", "secret-key")
    monkeypatch.setenv("CHAT_PROXY_STORE_URL", "memory:")

    with pytest.raises(BadConfiguration, match="CHAT_PROXY_AUTH_KEYS") as refused:
        create_app()

    assert "secret-key" not in str(refused.value)
    monkeypatch.setenv("CHAT_PROXY_AUTH_KEYS", "one")
    assert isinstance(create_app(), FastAPI)


class Marked:
    """Somebody's own middleware, which adds a header to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"x-marked", b"yes")]}
            await send(message)

        await self._app(scope, receive, marked)


async def test_our_own_server_does_not_pass_middleware_of_others_by() -> None:
    async with fake_model(polite) as model:
        chosen = settings(model.url)
        app = create_app(chosen)
        app.add_middleware(Marked)
        server = server_of(app, chosen)
        listener = listen("127.0.0.1", 0)
        task = asyncio.create_task(server._serve([listener]))
        await eventually(lambda: server.started)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            answer = await client.post(CHAT, content=chat_body(), headers=JSON)
        server.should_exit = True
        await task

    assert (answer.status_code, answer.headers["x-marked"]) == (200, "yes")
