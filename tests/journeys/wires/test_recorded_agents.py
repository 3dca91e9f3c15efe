"""Requests as Codex and Claude Code send them, and how they go on through several compactions."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.wires.desk import RULES
from tests.support.clock import BACKEND
from tests.support.wires.apis import MESSAGES, RESPONSES, Api
from tests.support.wires.model import WireModel, visited
from tests.support.wires.talks import words

pytestmark = pytest.mark.anyio

Fields = dict[str, Any]
RECORDED = Path(__file__).parent / "recorded"
NAMES = sorted(file.stem for file in RECORDED.glob("*.json"))
WINDOW = 8_192
STEPS = 40


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return BACKEND


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.json").read_bytes().rstrip(b"\n")


def api_of(name: str) -> Api:
    return RESPONSES if name.startswith("codex") else MESSAGES


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_request_passes_without_a_byte_changed(name: str) -> None:
    async with visited(WireModel(window=1_000_000)) as they:
        answer = await they.say(api_of(name), recorded(name))

    assert answer.status == 200
    assert answer.headers["x-chat-proxy-compaction"] == "none"
    assert they.server.chats[-1].received.body == recorded(name)
    assert they.server.chats[-1].received.target == api_of(name).path


def grown(body: Fields, number: int) -> Fields:
    """Return the request after one more step of the agent."""
    told = words(3_000, f"file {number}")
    if "input" in body:
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
        arguments = json.dumps({"cmd": f"cat file_{number}"})
        done = {"type": "function_call_output", "call_id": f"call_{number}", "output": told}
        call |= {"name": "exec_command", "arguments": arguments, "status": "completed"}
        return {**body, "input": [*body["input"], call, done]}
    messages = deepcopy(body["messages"])
    for message in messages:
        for block in message["content"] if type(message["content"]) is list else ():
            block.pop("cache_control", None)
    used = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"n": number}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": told}
    marked = {**result, "cache_control": {"type": "ephemeral"}}
    answered = {"role": "user", "content": [marked]}
    return {**body, "messages": [*messages, {"role": "assistant", "content": [used]}, answered]}


@pytest.mark.parametrize("name", NAMES)
async def test_an_agent_goes_on_as_if_the_window_had_no_end(name: str) -> None:
    api, body = api_of(name), json.loads(recorded(name))
    labels = []
    async with visited(WireModel(window=WINDOW)) as they:
        for number in range(STEPS):
            body = grown(body, number)
            answer = await they.say(api, body)
            assert answer.status == 200, (number, answer.body)
            labels.append(answer.headers["x-chat-proxy-compaction"])

    sent = [asked.fields for asked in [*they.server.chats, *they.server.summaries]]
    assert [wrong for each in sent for wrong in RULES[api.name](each)] == []
    assert len(they.server.summaries) >= 5
    assert labels.count("reused") > STEPS // 2
    assert len(they.server.chats) <= STEPS + 5, "refused too often"
