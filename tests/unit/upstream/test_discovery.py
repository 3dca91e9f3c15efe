"""Context windows are learned behind the scenes: no request waits for them."""

import asyncio
import gzip
import io
import json
from typing import Any

import pytest

from chat_proxy.errors import UpstreamError
from chat_proxy.proxy.services import Services
from chat_proxy.telemetry.logs import configure_logging
from chat_proxy.upstream import discovery
from chat_proxy.upstream.client import FETCHED_BYTES, Upstream, UpstreamPolicy
from chat_proxy.upstream.discovery import UNKNOWN_LISTING, Windows
from tests.support.clock import Stopwatch
from tests.support.fake_model import (
    MODELS,
    FakeModel,
    Line,
    Received,
    answer_json,
    fake_model,
    polite,
)
from tests.support.live import chat_request, eventually, raw_client, running_proxy

pytestmark = pytest.mark.anyio


class Lists:
    """Answers for its models as told, and chats politely."""

    def __init__(self, window: int = 4096) -> None:
        self.window = window
        self.asked = 0
        self.answer: Any = None

    async def __call__(self, received: Received, line: Line) -> None:
        if not received.target.startswith("/v1/models"):
            await polite(received, line)
            return
        self.asked += 1
        if self.answer is not None:
            await self.answer(line)
        else:
            models = {"data": [{"id": "fake", "max_model_len": self.window}]}
            await answer_json(line, models)


def says(raw: bytes) -> Any:
    async def answer(line: Line) -> None:
        await line.send(raw)

    return answer


async def ask(client: Any) -> int:
    await client.send(chat_request())
    return int((await client.answer()).status)


def window_in(services: Services, model: FakeModel) -> int | None:
    return services.windows._common.get(model.url, UNKNOWN_LISTING).windows.get("fake")


async def test_a_stalled_list_of_models_delays_no_chat_after_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discovery, "FIRST_SECONDS", 0.2)
    lists = Lists()
    lists.answer = Line.until_closed
    async with (
        fake_model(lists) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        watch = Stopwatch()
        assert await ask(client) == 200
        at_least, first = watch.wall(), watch.own()
        assert [await ask(client) for _ in range(3)] == [200] * 3

        assert at_least >= 0.2
        assert first < 1
        assert watch.own() - first < 0.2
        assert lists.asked == 1


async def test_those_who_come_with_the_first_wait_with_it() -> None:
    lists = Lists(4096)

    async def slowly(line: Line) -> None:
        await asyncio.sleep(0.2)
        await answer_json(line, {"data": [{"id": "fake", "max_model_len": 4096}]})

    lists.answer = slowly
    async with fake_model(lists) as model, running_proxy(model.url) as proxy:
        windows = proxy.services.windows
        told = await asyncio.gather(*[windows.of(model.url, []) for _ in range(5)])

    assert [listing.windows.get("fake") for listing in told] == [4096] * 5
    assert lists.asked == 1


async def test_a_first_request_that_leaves_spoils_no_other_one() -> None:
    lists = Lists()
    lists.answer = Line.until_closed
    async with fake_model(lists) as model, running_proxy(model.url) as proxy:
        windows = proxy.services.windows
        first = asyncio.create_task(windows.of(model.url, []))
        await eventually(lambda: lists.asked == 1)
        second = asyncio.create_task(windows.of(model.url, []))
        await asyncio.sleep(0)
        first.cancel()

        assert await second is UNKNOWN_LISTING


async def test_the_window_is_learned_once_and_told_in_the_log() -> None:
    lines = io.StringIO()
    configure_logging("info", "json", lines)
    try:
        async with (
            fake_model(polite) as model,
            running_proxy(model.url) as proxy,
            raw_client(proxy) as client,
        ):
            await ask(client)
            await eventually(lambda: window_in(proxy.services, model) == 4096)
            await ask(client)
    finally:
        configure_logging("error", "json")

    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    requests = [line for line in told if line["message"] == "request"]
    assert [line["window"] for line in requests] == [4096, 4096]
    assert requests[0]["window_source"] == "discovery"
    assert [r.target for r in model.requests].count("/v1/models") == 1


async def test_the_window_is_read_again_after_a_while() -> None:
    lists = Lists(1000)
    async with (
        fake_model(lists) as model,
        running_proxy(model.url, upstream={"discovery_seconds": 0.1}) as proxy,
        raw_client(proxy) as client,
    ):
        await ask(client)
        await eventually(lambda: window_in(proxy.services, model) == 1000)
        lists.window = 2000
        await asyncio.sleep(0.12)
        await ask(client)

        await eventually(lambda: window_in(proxy.services, model) == 2000)


BAD_ANSWERS = {
    "401": b"HTTP/1.1 401 X\r\ncontent-length: 2\r\n\r\n{}",
    "html": b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>",
    "redirect": b"HTTP/1.1 302 X\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n",
    "not http": b"rubbish\r\n\r\n",
    "too large": b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (FETCHED_BYTES + 9)
    + b" " * (FETCHED_BYTES + 9),
    "half": b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 99\r\n\r\n{}",
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_a_bad_answer_changes_nothing_and_is_asked_for_soon(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "RETRY_SECONDS", 0.05)
    lists = Lists()

    async def bad(line: Line) -> None:
        await line.send(BAD_ANSWERS[name])
        line.writer.close()

    lists.answer = bad
    async with (
        fake_model(lists) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        assert await ask(client) == 200
        await eventually(lambda: not proxy.services.windows._tasks)
        assert window_in(proxy.services, model) is None
        lists.answer = None
        await asyncio.sleep(0.08)
        await ask(client)

        await eventually(lambda: window_in(proxy.services, model) == 4096)
        assert lists.asked == 2


async def test_what_was_known_outlives_a_bad_answer() -> None:
    lists = Lists()
    async with (
        fake_model(lists) as model,
        running_proxy(model.url, upstream={"discovery_seconds": 0.05}) as proxy,
        raw_client(proxy) as client,
    ):
        await ask(client)
        await eventually(lambda: window_in(proxy.services, model) == 4096)
        lists.answer = says(BAD_ANSWERS["401"])
        await asyncio.sleep(0.06)
        await ask(client)
        await eventually(lambda: lists.asked == 2)

        assert window_in(proxy.services, model) == 4096


class Asking:
    """Windows on their own, with an upstream of their own."""

    async def __aenter__(self) -> Windows:
        self._upstream = Upstream(UpstreamPolicy(None, 1, 1, 0, 1))
        self._upstream.open()
        self._windows = Windows(self._upstream, 300)
        return self._windows

    async def __aexit__(self, *_: object) -> None:
        await self._windows.close()
        await self._upstream.close()


async def test_a_compressed_bomb_is_not_unpacked() -> None:
    """B22: small on the wire, a gigabyte in memory."""
    lists = Lists()
    bomb = gzip.compress(b" " * 50_000_000)
    lists.answer = says(
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)
        + bomb
    )
    async with fake_model(lists) as model, Asking() as windows:
        with pytest.raises(UpstreamError):
            await windows.ask(model.url, [])

    assert model.requests[0].header("accept-encoding") == "identity"


async def test_silence_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LISTING_SECONDS", 0.05)
    lists = Lists()
    lists.answer = Line.until_closed
    async with fake_model(lists) as model, Asking() as windows:
        with pytest.raises(UpstreamError) as failure:
            await windows.ask(model.url, [])

        assert failure.value.code == "upstream_first_byte_timeout"
        await eventually(lambda: model.open_connections == 0)


async def test_the_question_carries_the_asker_s_credentials() -> None:
    async with fake_model(polite) as model, Asking() as windows:
        found = await windows.ask(model.url, [(b"authorization", b"Bearer sk-1")])

    assert found.windows == {"fake": MODELS["data"][0]["max_model_len"]}  # type: ignore[index]
    assert model.requests[0].header("authorization") == "Bearer sk-1"


async def test_closing_ends_a_question_that_is_still_open() -> None:
    lists = Lists()
    lists.answer = Line.until_closed
    async with fake_model(lists) as model:
        async with Asking() as windows:
            asking = asyncio.create_task(windows.of(model.url, []))
            await eventually(lambda: lists.asked == 1)
            asking.cancel()

        await eventually(lambda: model.open_connections == 0)
