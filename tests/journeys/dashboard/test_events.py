"""The figures as they come: server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from chat_proxy.routes.dashboard import dashboard as routes
from chat_proxy.routes.dashboard.event_stream import EventStream
from tests.journeys.dashboard.talks import chat, dashboard, with_pictures
from tests.unit.chat.shapes import user

pytestmark = pytest.mark.anyio


async def documents(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield what a stream of events says."""
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def test_news_come_by_themselves() -> None:
    async with dashboard() as (_, client), client.stream("GET", "/dashboard/events") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; ")
        news = documents(answer)
        first = await anext(news)
        await chat(client, *with_pictures())
        second = await anext(news)
        await chat(client, user("hi"))
        third = await anext(news)

    assert [len(told["rows"]) for told in (first, second, third)] == [0, 1, 1]
    assert third["totals"]["chats"] == 2


async def test_a_stopping_server_ends_the_streams() -> None:
    async with dashboard() as (proxy, client), client.stream("GET", "/dashboard/events") as answer:
        news = documents(answer)
        await anext(news)
        proxy.services.drain.begin()
        start = time.perf_counter()
        rest = [told async for told in news]

    assert time.perf_counter() - start < 3
    assert len(rest) <= 1


async def test_only_so_many_may_watch_and_who_leaves_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "MAX_VIEWERS", 1)
    async with dashboard() as (_, client):
        async with client.stream("GET", "/dashboard/events"):
            refused = await client.get("/dashboard/events")
        async with asyncio.timeout(5):
            while True:
                async with client.stream("GET", "/dashboard/events") as answer:
                    if answer.status_code == 200:
                        break

    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "5"


async def test_a_quiet_stream_says_that_it_is_there() -> None:
    class Quiet:
        async def news(self) -> None:
            return None

    class Running:
        is_stopping = False

    sent: list[dict[str, Any]] = []
    said_twice = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await asyncio.wait_for(said_twice.wait(), 5)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) == 3:
            said_twice.set()

    await EventStream(Quiet(), Running(), {}, ping_seconds=0)({}, receive, send)  # type: ignore[arg-type]

    assert [message.get("body") for message in sent][:2] == [None, b": still here\n\n"]


async def test_a_mistake_in_a_stream_is_not_swallowed() -> None:
    class Broken:
        async def news(self) -> None:
            raise RuntimeError

    class Running:
        is_stopping = False

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def send(_: Any) -> None:
        return

    with pytest.raises(RuntimeError):
        await EventStream(Broken(), Running(), {})({}, receive, send)  # type: ignore[arg-type]
