"""The figures as they come: server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from chat_proxy.routes.dashboard import dashboard as routes
from chat_proxy.routes.dashboard.event_stream import LOOK_SECONDS, EventStream
from chat_proxy.routes.dashboard.snapshot import KEPT_UPDATES, Feed, Snapshots, Viewer
from chat_proxy.server import operations_of
from tests.journeys.dashboard.talks import chat, dashboard, with_pictures
from tests.support.clock import own_time, within
from tests.support.live import eventually
from tests.unit.chat.shapes import user

pytestmark = pytest.mark.anyio


async def events_of(answer: httpx.Response) -> AsyncIterator[str]:
    """Yield the events of a stream, as they were sent."""
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


async def documents(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield what a stream of events says."""
    async for line in events_of(answer):
        yield json.loads(line)


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


async def test_ten_viewers_are_sent_the_same_bytes() -> None:
    """Each gets all rows first; what is new is built and written as JSON once for all."""
    async with dashboard() as (_, client), AsyncExitStack() as stack:
        await chat(client, user("before"))
        answers = [
            await stack.enter_async_context(client.stream("GET", "/dashboard/events"))
            for _ in range(10)
        ]
        lines = [events_of(answer) for answer in answers]
        first = [await anext(line) for line in lines]
        await chat(client, user("hi"))
        second = [await anext(line) for line in lines]

    assert len(set(first)) == len(set(second)) == 1
    assert [row["number"] for row in json.loads(first[0])["rows"]] == [0]
    assert [row["number"] for row in json.loads(second[0])["rows"]] == [1]


class CountingSnapshots(Snapshots):
    """Counts how often the figures are made."""

    made = 0

    def figures(self) -> dict[str, Any]:
        type(self).made += 1
        return super().figures()


async def test_figures_are_made_once_for_ten_viewers_and_never_for_none() -> None:
    async with dashboard() as (proxy, client):
        now = 0.0
        CountingSnapshots.made = 0
        operations = operations_of(proxy.services)
        feed = Feed(CountingSnapshots(proxy.services.chat_log, operations, "on"), lambda: now)
        viewers = [Viewer(feed) for _ in range(10)]
        made: list[int] = []
        told: list[list[bytes]] = []
        for _ in range(3):
            await chat(client, user("hi"))
            await eventually(lambda: proxy.services.chat_log.history.own.count == len(made) + 1)
            now += LOOK_SECONDS
            told.append([await viewer.news() for viewer in viewers])
            made.append(CountingSnapshots.made)

    assert made == [1, 2, 3]
    assert [len(set(each)) for each in told] == [1, 1, 1]


async def test_a_viewer_that_was_late_gets_what_it_missed_and_after_long_everything() -> None:
    async with dashboard() as (proxy, client):
        now = 0.0
        feed = Feed(
            Snapshots(proxy.services.chat_log, operations_of(proxy.services), "on"), lambda: now
        )
        viewer, late, absent = Viewer(feed), Viewer(feed), Viewer(feed)
        await absent.news()
        numbers: list[list[int]] = []
        for number in range(KEPT_UPDATES + 1):
            await chat(client, user("hi"))
            await eventually(lambda: proxy.services.chat_log.history.own.count > len(numbers))
            now += LOOK_SECONDS
            numbers.append(numbers_in(await viewer.news()))
            if number == KEPT_UPDATES - 3:
                await late.news()
        missed, everything = numbers_in(await late.news()), numbers_in(await absent.news())
        nothing = await late.news()

    assert numbers == [[number] for number in range(KEPT_UPDATES + 1)]
    assert missed == [KEPT_UPDATES - 2, KEPT_UPDATES - 1, KEPT_UPDATES]
    assert everything == list(range(KEPT_UPDATES + 1))
    assert nothing == b""


def numbers_in(events: bytes) -> list[int]:
    """The numbers of the rows in some events."""
    lines = [line.removeprefix(b"data: ") for line in events.split(b"\n\n") if line]
    return [row["number"] for line in lines for row in json.loads(line)["rows"]]


async def test_a_stopping_server_ends_the_streams() -> None:
    async with dashboard() as (proxy, client), client.stream("GET", "/dashboard/events") as answer:
        news = documents(answer)
        await anext(news)
        proxy.services.drain.begin()
        start = own_time()
        rest = [told async for told in news]

    assert own_time() - start < 3
    assert len(rest) <= 1


async def test_only_so_many_may_watch_and_who_leaves_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "MAX_VIEWERS", 1)
    async with dashboard() as (_, client):
        async with client.stream("GET", "/dashboard/events"):
            refused = await client.get("/dashboard/events")
        async with within(5):
            while True:
                async with client.stream("GET", "/dashboard/events") as answer:
                    if answer.status_code == 200:
                        break

    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "5"


async def test_a_quiet_stream_says_that_it_is_there() -> None:
    class Quiet:
        async def news(self) -> bytes:
            return b""

    class Running:
        is_stopping = False

    sent: list[dict[str, Any]] = []
    said_twice = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await asyncio.wait_for(said_twice.wait(), 60)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) == 3:
            said_twice.set()

    await EventStream(Quiet(), Running(), {}, ping_seconds=0)({}, receive, send)  # type: ignore[arg-type]

    assert [message.get("body") for message in sent][:2] == [None, b": still here\n\n"]


async def test_a_mistake_in_a_stream_is_not_swallowed() -> None:
    class Broken:
        async def news(self) -> bytes:
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
