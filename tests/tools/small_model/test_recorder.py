"""The forwarder that sees what the model gets."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.support.fake_model import (
    Behaviour,
    FakeModel,
    Line,
    Received,
    answer_json,
    fake_model,
    polite,
)
from tests.support.live import eventually
from tools.small_model.chat import Chat, User
from tools.small_model.exchanges import Exchange
from tools.small_model.recorder import Recorder, recording

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def recorded(
    behaviour: Behaviour = polite,
) -> AsyncIterator[tuple[FakeModel, Recorder, httpx.AsyncClient]]:
    async with (
        fake_model(behaviour) as server,
        recording(server.url.removesuffix("/v1")) as recorder,
        httpx.AsyncClient(base_url=recorder.url, trust_env=False, timeout=60) as client,
    ):
        yield server, recorder, client


def body(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Hello"}], **fields}


async def counting(received: Received, line: Line) -> None:
    """Count words as tokens, and answer politely."""
    if received.target == "/tokenize":
        await answer_json(line, {"tokens": json.loads(received.body)["content"].split()})
    else:
        await polite(received, line)


async def test_requests_and_answers_pass_unchanged() -> None:
    async with recorded() as (server, recorder, client):
        answer = await client.post("/chat/completions", json=body(), headers={"x-own": "1"})
        streamed = await client.post("/chat/completions", json=body(stream=True))

    assert answer.json()["choices"][0]["message"]["content"] == "Hello from the fake model."
    assert streamed.text.endswith("data: [DONE]\n\n")
    assert json.loads(server.requests[0].body) == body()
    assert server.requests[0].header("x-own") == "1"
    assert [exchange.request for exchange in recorder.exchanges] == [body(), body(stream=True)]


async def test_an_exchange_knows_its_purpose_its_times_and_its_answer() -> None:
    async with recorded() as (_, recorder, client):
        named = {"x-chat-proxy-purpose": "summary"}
        await client.post("/chat/completions", json=body(), headers=named)

    [exchange] = recorder.exchanges
    assert exchange.is_summary
    assert exchange.status == 200
    assert exchange.prompt_tokens == 11
    assert exchange.arrived <= exchange.began <= exchange.ended


async def test_what_is_no_chat_passes_and_is_not_kept() -> None:
    async with recorded() as (_, recorder, client):
        listed = await client.get("/models")

    assert listed.json()["data"][0]["id"] == "fake"
    assert recorder.exchanges == []


async def test_a_refusal_passes_with_its_status() -> None:
    async def refuse(_: Received, line: Line) -> None:
        await answer_json(line, {"error": {"n_prompt_tokens": 5_000}}, 400)

    async with recorded(refuse) as (_, recorder, client):
        answer = await client.post("/chat/completions", json=body())

    assert answer.status_code == 400
    assert answer.json()["error"]["n_prompt_tokens"] == 5_000
    assert recorder.exchanges[0].status == 400


async def test_a_caller_that_leaves_takes_its_request_along() -> None:
    async def never(_: Received, line: Line) -> None:
        await line.until_closed()

    async with recorded(never) as (server, recorder, client):
        asking = asyncio.create_task(client.post("/chat/completions", json=body()))
        await eventually(lambda: server.requests)
        asking.cancel()
        await asyncio.wait([asking])
        await eventually(lambda: server.open_connections == 0)
        await eventually(lambda: recorder.exchanges[0].ended > 0)

    assert recorder.exchanges[0].status == 0


async def test_what_the_server_still_works_on_ends_with_the_recording() -> None:
    began = asyncio.get_running_loop().time()
    async with recorded() as (_, recorder, _):
        recorder.exchanges += [Exchange({}, None, began), Exchange({}, None, 1.0, ended=3.0)]

    running, done = recorder.exchanges
    assert 0 < running.seconds < 60
    assert done.seconds == 2.0


async def test_a_server_that_dies_is_a_broken_connection() -> None:
    async def die(_: Received, line: Line) -> None:
        line.reset()

    async with recorded(die) as (_, recorder, client):
        with pytest.raises(httpx.TransportError):
            await client.post("/chat/completions", json=body())

    assert recorder.exchanges[0].status == 0


async def test_a_user_keeps_the_history_and_knows_what_fitted() -> None:
    """The fake model counts 11 tokens for a prompt and 6 for its answer, if it is not a stream."""
    async with recorded(counting) as (_, recorder, client):
        client.base_url = httpx.URL(recorder.url.removesuffix("/v1"))
        user = User(client, recorder, window=60, max_tokens=20)
        chat = Chat()
        await user.say(chat, "Hello there.")
        await user.say(chat, "one two three")
        await user.say(chat, "word " * 45)

    assert [turn.fitted for turn in chat.turns] == [True, True, False]
    assert [message["role"] for message in chat.history] == ["system", *["user", "assistant"] * 3]
    assert chat.history[2]["content"] == "Hello from the fake model."
    assert chat.turns[0].prompt_tokens == 11
    assert 0 <= chat.turns[0].added < 5
    assert chat.refused == []
    assert "Hello there." in chat.last_prompt.texts


async def test_a_summary_that_arrives_meanwhile_is_no_part_of_a_turn() -> None:
    async with recorded(counting) as (_, recorder, client):
        client.base_url = httpx.URL(recorder.url.removesuffix("/v1"))
        user = User(client, recorder, window=60, max_tokens=20)
        named = {"x-chat-proxy-purpose": "summary"}
        chat = Chat()
        await asyncio.gather(
            user.say(chat, "Hello"),
            client.post("/v1/chat/completions", json=body(), headers=named),
        )

    assert len(recorder.exchanges) == 2
    assert [exchange.is_summary for exchange in chat.turns[0].exchanges] == [False]
