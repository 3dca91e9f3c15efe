"""`POST /v1/chat/explain` tells what the proxy sees, and sends nothing to the model."""

import json
from typing import Any

import pytest

from tests.journeys.counting.pictures import image, png, text
from tests.support.fake_model import Line, Received, polite
from tests.support.live import RawAnswer, chat_body, chat_request
from tests.support.meeting import Meeting, meeting

pytestmark = pytest.mark.anyio


def call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}


AGENT: list[dict[str, Any]] = [
    {"role": "system", "content": "You look at things."},
    {"role": "user", "content": [text("What is this?"), image(png(512, 512))]},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Let me look twice.",
        "tool_calls": [call("a"), call("b")],
    },
    {"role": "tool", "tool_call_id": "b", "content": "the second result"},
    {"role": "tool", "tool_call_id": "a", "content": [text("the first result")]},
    {"role": "assistant", "content": "A picture."},
    {"role": "user", "content": "And now?"},
]
TOOLS = [
    {"type": "function", "function": {"name": "look", "description": "Look at a thing closely."}},
    {"type": "function", "function": {"name": "go"}},
    None,
]


async def explain(met: Meeting, body: bytes, *headers: str) -> RawAnswer:
    request = chat_request(body, *headers).replace(b"/chat/completions", b"/chat/explain", 1)
    await met.client.send(request)
    return await met.client.answer()


async def explained(met: Meeting, **fields: Any) -> dict[str, Any]:
    answer = await explain(met, chat_body(**fields))
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    return dict(json.loads(answer.body))


async def test_tokens_structure_window_and_budget_are_told() -> None:
    async with meeting(polite) as met:
        told = await explained(met, messages=AGENT, tools=TOOLS, max_tokens=500)

        assert met.chats == 0

    tokens = told["tokens"]
    assert told["model"] == "fake"
    assert set(tokens["by_kind"]) == {
        "text", "reasoning", "tool_calls", "tool_results", "tools", "images", "overhead"
    }  # fmt: skip
    assert sum(tokens["by_kind"].values()) == tokens["counted"]
    assert tokens["total"] > tokens["counted"]
    assert tokens["encoding"] == "o200k_base"
    assert tokens["is_guess"] is False
    assert set(tokens["by_script"]) >= {"latin", "symbols"}
    assert sum(tokens["by_script"].values()) == sum(
        tokens["by_kind"][kind]
        for kind in ("text", "reasoning", "tool_calls", "tool_results", "tools")
    )
    assert tokens["calibration"] == {
        "vocabulary": "", **dict.fromkeys(tokens["by_script"], 1.1),
        "tool_messages": 0.0, "result_escapes": 0.0, "tools": 0.0, "media": 1.0, "cells": 0.0,
        "call_frames": 1.0, "frames": 1.0, "preamble": 0.0, "unled": 0.0, "fixed": 0.0,
        "lessons": 0,
    }  # fmt: skip
    assert told["window"] == {"tokens": 4096, "source": "discovery"}
    assert told["budget"] == {
        "usable": 3596, "reserve": 500, "trigger": 2876, "prepare": 2337, "is_over_trigger": False
    }  # fmt: skip
    assert told["groups"] == [[0, 1], [1, 2], [2, 5], [5, 6], [6, 7]]
    assert told["turns"] == [
        {"start": 1, "end": 6, "users": [1]}, {"start": 6, "end": 7, "users": [6]}
    ]  # fmt: skip
    assert told["seams"] == [1, 2, 5, 6, 7]


async def test_each_message_and_tool_is_told() -> None:
    async with meeting(polite) as met:
        told = await explained(met, messages=AGENT, tools=TOOLS)

    messages, kinds = told["messages"], told["tokens"]["by_kind"]
    assert [message["role"] for message in messages] == [message["role"] for message in AGENT]
    assert [message["index"] for message in messages] == list(range(7))
    assert [message["turn"] for message in messages] == [None, 0, 0, 0, 0, 0, 1]
    assert [message["group"] for message in messages] == [0, 1, 2, 2, 2, 3, 4]
    for message in messages:
        assert sum(message["by_kind"].values()) == message["tokens"]
    reply = 3
    assert sum(message["tokens"] for message in messages) == (
        told["tokens"]["counted"] - kinds["tools"] - reply
    )
    assert messages[1]["by_kind"]["images"] == kinds["images"] == 1600
    assert messages[2]["by_kind"].keys() == {"reasoning", "tool_calls", "overhead"}
    assert messages[4]["by_kind"]["tool_results"] == 3
    assert [tool["name"] for tool in told["tools"]] == ["look", "go", ""]
    assert told["tools"][0]["tokens"] > told["tools"][1]["tokens"] > 0


async def test_a_model_that_takes_digits_one_by_one_is_told() -> None:
    digits = [{"role": "user", "content": "1234567"}]
    async with meeting(polite) as met:
        plain = await explained(met, messages=digits)
        single = await explained(met, model="Qwen/Qwen3-8B", messages=digits)

    assert (plain["tokens"]["single_digits"], single["tokens"]["single_digits"]) == (False, True)
    assert plain["messages"][0]["by_kind"]["text"] == plain["tokens"]["by_kind"]["text"] == 3
    assert single["messages"][0]["by_kind"]["text"] == single["tokens"]["by_kind"]["text"] == 7
    assert single["tokens"]["is_guess"] is False


async def test_legacy_functions_and_openai_models_are_told() -> None:
    functions = [{"name": "look", "description": "Look closely."}]
    async with meeting(polite) as met:
        legacy = await explained(met, model="gpt-4", functions=functions)
        vision = await explained(met, model="gpt-4o", messages=AGENT, tools=TOOLS)
        odd = await explained(met, tools={"no": "list"})

    assert [tool["name"] for tool in legacy["tools"]] == ["look"]
    assert legacy["tokens"]["encoding"] == "cl100k_base"
    assert legacy["tokens"]["is_guess"] is False
    assert legacy["window"] == {"tokens": 8192, "source": "table"}
    assert vision["tokens"]["by_kind"]["images"] == 255
    assert odd["tools"] == []
    assert odd["tokens"]["by_kind"]["tools"] > 0


async def test_a_request_over_the_trigger_says_so() -> None:
    messages = [{"role": "user", "content": "many words " * 2000}]
    async with meeting(polite) as met:
        told = await explained(met, messages=messages)

    assert told["budget"]["is_over_trigger"] is True


async def test_without_a_window_there_is_no_budget() -> None:
    async with meeting(polite) as met:
        told = await explained(met, model="nobody", messages=[])

    assert (told["window"], told["budget"], told["messages"]) == (None, None, [])


async def test_what_was_learned_is_told() -> None:
    async with meeting(polite) as met:
        await met.ask()
        told = await explained(met)
        estimate = int((await met.ask()).headers["x-chat-proxy-tokens-before"])

    assert told["tokens"]["calibration"]["lessons"] == 1
    assert told["tokens"]["total"] == estimate


async def test_names_that_are_not_unicode_are_told() -> None:
    tools = [{"function": {"name": "half \ud83d"}}]
    async with meeting(polite) as met:
        told = await explained(met, model="\ud83d", tools=tools)

    assert told["model"] == "\ud83d"
    assert told["tools"][0]["name"] == "half \ud83d"


BAD_BODIES = [
    (b"", "invalid_json", None),
    (b"{", "invalid_json", None),
    (b"[]", "invalid_json_root", None),
    (b"\xff{}", "invalid_encoding", None),
    (b'{"n": NaN}', "invalid_number", None),
    (b"{}", "invalid_value", "messages"),
    (b'{"messages": "hi"}', "invalid_value", "messages"),
    (b'{"messages": ["hi"]}', "invalid_value", "messages"),
    (b'{"a":' * 99 + b"1" + b"}" * 99, "too_deep", None),
]


async def test_a_bad_body_is_refused_in_openais_shape() -> None:
    async with meeting(polite) as met:
        for body, code, param in BAD_BODIES:
            answer = await explain(met, body)

            assert answer.status == 400
            assert (answer.error["code"], answer.error["param"]) == (code, param)
            assert answer.error["type"] == "invalid_request_error"


async def test_it_is_for_callers_with_a_key_and_only_by_post() -> None:
    async with meeting(polite, auth={"keys": ("sk-right",)}) as met:
        without = await explain(met, chat_body())
        wrong = await explain(met, chat_body(), "authorization: Bearer sk-wrong")
        right = await explain(met, chat_body(), "authorization: Bearer sk-right")
        await met.client.send(
            b"GET /v1/chat/explain HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-right\r\n\r\n"
        )
        got = await met.client.answer()

    assert [answer.status for answer in (without, wrong, right, got)] == [401, 401, 200, 405]


async def test_an_upstream_that_is_down_or_silent_only_hides_the_window() -> None:
    async def silent(_: Received, line: Line) -> None:
        await line.until_closed()

    async with meeting(polite, upstream={"base_url": "http://127.0.0.1:1/v1"}) as met:
        down = await explained(met)
    async with meeting(polite) as met:
        met.model.behaviour = silent
        hanging = await explained(met)

    assert down["window"] is None
    assert hanging["window"] is None
    assert down["tokens"] == hanging["tokens"]
