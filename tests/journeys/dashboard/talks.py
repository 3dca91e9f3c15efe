"""A proxy with a dashboard, and conversations that give it something to show."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.support.fake_model import fake_model, on_chat, polite
from tests.support.live import Proxy, http_client, running_proxy
from tests.unit.chat.shapes import Fields, calls, image, result, says, system, text, user

SECRET_WORDS = "the cat sat on the classified mat"


@asynccontextmanager
async def dashboard(**sections: Any) -> AsyncIterator[tuple[Proxy, httpx.AsyncClient]]:
    """Run a model, a proxy in front of it and a client."""
    async with (
        fake_model(on_chat(polite)) as model,
        running_proxy(model.url, **{"budget": {"context_window": 8_000}, **sections}) as proxy,
        http_client(proxy) as client,
    ):
        yield proxy, client


def with_pictures(words: str = SECRET_WORDS) -> list[Fields]:
    """A conversation of which the vision stage drops the first turn."""
    return [
        system(),
        user([text(words), image()]),
        calls("1"),
        result("1", words),
        says("ok"),
        user([text("and this?"), image()]),
    ]


async def chat(client: httpx.AsyncClient, *messages: Fields, **fields: Any) -> httpx.Response:
    """Send a chat."""
    body = {"model": "demo", "messages": list(messages) or [user("hi")], **fields}
    return await client.post("/v1/chat/completions", json=body)


async def figures(client: httpx.AsyncClient) -> dict[str, Any]:
    """What the dashboard shows."""
    return dict((await client.get("/dashboard/data")).json())
