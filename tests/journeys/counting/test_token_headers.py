"""Every chat answer tells how large its request was, and nothing else about the request changes."""

import hashlib
import json
from typing import Any

import pytest

from tests.journeys.counting.conftest import Said
from tests.support.fake_model import DONE, Line, Received, answer_json, begin_stream, delta, polite
from tests.support.live import chat_body, chat_request, eventually, raw_client, running_proxy
from tests.support.meeting import meeting

pytestmark = pytest.mark.anyio

BEFORE = "x-chat-proxy-tokens-before"
AFTER = "x-chat-proxy-tokens-after"
ODD_SHAPES = [
    "null",
    '"hi"',
    "{}",
    "7",
    '["hi"]',
    '[{"role":"user","content":"hi"}, null]',
    "[[]]",
]
ODD_MESSAGES: list[dict[str, Any]] = [
    {},
    {"role": 7, "content": 8},
    {"role": "user", "content": None},
    {"role": "user", "content": {"type": "text"}},
    {"role": "user", "content": [None, 1, "x", [], {"type": 1}, {"image_url": 3}]},
    {"role": "assistant", "tool_calls": "no"},
    {"role": "assistant", "tool_calls": [None, {}, {"function": 1}, {"function": {"name": 1}}]},
    {"role": "assistant", "function_call": {"name": "f", "arguments": {"a": 1}}},
    {"role": "tool", "tool_call_id": 1, "content": [{"type": "text", "text": None}]},
    {"role": "user", "content": "\ud83d alone"},
    {"role": "user", "content": "<|endoftext|><|im_start|>"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
]
ODD_TOOLS: list[Any] = ["x", 1, {"a": 1}, [[]], [{"function": {"parameters": 1}}]]


def tokens(headers: dict[str, str]) -> tuple[int, int]:
    return int(headers[BEFORE]), int(headers[AFTER])


async def refuse(_: Received, line: Line) -> None:
    await answer_json(line, {"error": {"message": "too busy"}}, 429)


async def die(_: Received, line: Line) -> None:
    line.reset()


async def die_in_a_stream(_: Received, line: Line) -> None:
    await begin_stream(line)
    await line.chunk(delta("half"))
    line.reset()


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_tells_the_tokens_of_its_request(*, stream: bool) -> None:
    async with meeting(polite) as met:
        short = await met.ask(stream=stream)
        long = await met.ask(
            stream=stream, messages=[{"role": "user", "content": "one two three four " * 100}]
        )

    assert (short.status, long.status) == (200, 200)
    before, after = tokens(short.headers)
    assert before == after
    assert 5 <= before <= 20
    assert 400 <= tokens(long.headers)[0] <= 480
    if stream:
        assert short.body.endswith(DONE)


@pytest.mark.parametrize(("behaviour", "status", "ours"), [(refuse, 429, False), (die, 502, True)])
async def test_an_error_tells_them_too(behaviour: Any, status: int, *, ours: bool) -> None:
    async with meeting(behaviour, upstream={"breaker_failures": 0}) as met:
        answer = await met.ask()

    assert answer.status == status
    assert ("x-chat-proxy-error" in answer.headers) is ours
    assert tokens(answer.headers)[0] > 0


async def test_an_upstream_that_is_down_and_a_stream_that_breaks_tell_them() -> None:
    async with running_proxy("http://127.0.0.1:1/v1") as proxy, raw_client(proxy) as client:
        await client.send(chat_request())
        down = await client.answer()
    async with meeting(die_in_a_stream) as met:
        broken = await met.stream()

    assert (down.status, broken.status) == (502, 200)
    assert tokens(down.headers) == tokens(broken.headers)


async def test_an_error_before_counting_tells_none() -> None:
    async with meeting(polite) as met:
        await met.client.send(chat_request(b'{"messages": ['))
        answer = await met.client.answer()

    assert answer.status == 400
    assert BEFORE not in answer.headers


@pytest.mark.parametrize(
    ("sections", "headers"),
    [({"mode": "off"}, ()), ({}, ("x-chat-proxy-mode: off",)), ({}, ("X-Chat-Proxy-Mode: OFF",))],
)
async def test_without_compaction_nothing_is_counted(
    sections: dict[str, Any], headers: tuple[str, ...], said: Said
) -> None:
    async with meeting(polite, **sections) as met:
        await met.client.send(chat_request(chat_body(), *headers))
        answer = await met.client.answer()
        await eventually(lambda: said("request"))

        assert answer.headers["x-chat-proxy-compaction"] == "off"
        assert not {BEFORE, AFTER} & set(answer.headers)
        assert not {"tokens_before", "window"} & set(said("request")[0])
        assert met.figure("chat_proxy_estimated_tokens_total") == 0
        assert [request.method for request in met.model.requests] == ["POST"]


async def test_observing_counts_too() -> None:
    async with meeting(polite, mode="observe") as met:
        answer = await met.ask()

    assert tokens(answer.headers)[0] > 0


async def test_the_log_tells_tokens_and_window(said: Said) -> None:
    async with meeting(polite) as met:
        answer = await met.ask()
        await eventually(lambda: said("request"))

    [line] = said("request")
    assert (line["tokens_before"], line["tokens_after"]) == tokens(answer.headers)
    assert (line["window"], line["window_source"]) == (4096, "discovery")


async def test_messages_of_an_odd_shape_pass_uncounted(said: Said) -> None:
    async with meeting(polite) as met:
        for messages in ODD_SHAPES:
            body = f'{{"model": "fake", "messages": {messages}}}'.encode()
            await met.client.send(chat_request(body))
            answer = await met.client.answer()

            assert answer.status == 200
            assert BEFORE not in answer.headers
            assert met.model.requests[-1].body == body
    assert not said("request could not be measured")


async def test_odd_messages_are_counted_and_pass_byte_for_byte(said: Said) -> None:
    async with meeting(polite) as met:
        for message in ODD_MESSAGES:
            given = chat_body(messages=[message], tools=[None, {}, 1], tool_choice=[])
            body = b" " + given + b"\n"
            await met.client.send(chat_request(body))
            answer = await met.client.answer()

            received = met.model.requests[-1].body
            assert answer.status == 200
            assert tokens(answer.headers)[0] > 0
            assert hashlib.sha256(received).digest() == hashlib.sha256(body).digest()
    assert not said("request could not be measured")


@pytest.mark.parametrize("model", ["fake", "gpt-4o"])
async def test_odd_definitions_are_counted(model: str, said: Said) -> None:
    async with meeting(polite) as met:
        for tools in ODD_TOOLS:
            given = {"model": model, "tools": tools, "tool_choice": {"function": 1}}
            answer = await met.ask(**given, response_format={"json_schema": {"a": [1]}})

            assert tokens(answer.headers)[0] > 0
            assert json.loads(met.model.requests[-1].body)["tools"] == tools
    assert not said("request could not be measured")
