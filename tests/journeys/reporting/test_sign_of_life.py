"""A streaming client that waits for a summary sees a sign of life, whichever API it speaks."""

import asyncio
import json
from typing import Any

import pytest

from chat_proxy.config.settings import Settings
from tests.journeys.summaries.troubles import chatter
from tests.support.clock import own_time
from tests.support.fake_model import MODELS, Line, Received, answer_json, begin_stream
from tests.support.live import RawAnswer
from tests.support.meeting import Meeting, meeting
from tests.support.wires.apis import APIS

pytestmark = pytest.mark.anyio

PAUSE = 0.4
SIGN = 0.1
WAITING = {"summary": {"wait": "trigger", "keep_alive_seconds": SIGN}}
BUDGET = {"budget": {"context_window": 8_000, "prepare": 1}}
TURNS = [
    {"role": role, "content": chatter(200, f"{role}{number}")}
    for number in range(20)
    for role in ("user", "assistant")
]
CHAT = [*TURNS, {"role": "user", "content": "And now?"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": CHAT},
    "messages": {"messages": CHAT, "max_tokens": 500},
    "responses": {"input": CHAT},
}
SIGNS = {
    "chat/completions": b": compacting\n\n",
    "messages": b'event: ping\ndata: {"type": "ping"}\n\n',
    "responses": b": compacting\n\n",
}


async def slow_and_broken(received: Received, line: Line) -> None:
    """Think long about a summary, then fail; refuse every chat."""
    if received.method == "GET":
        await answer_json(line, MODELS)
        return
    if received.header("x-chat-proxy-purpose") == "summary":
        await asyncio.sleep(PAUSE)
    await answer_json(line, {"error": {"message": "Out of memory.", "type": "server_error"}}, 500)


async def ask(met: Meeting, path: str, **fields: Any) -> RawAnswer:
    met.model.behaviour = slow_and_broken
    body = json.dumps({"model": "fake", **BODIES[path], **fields}).encode()
    head = f"POST /v1/{path} HTTP/1.1\r\nhost: proxy\r\ncontent-length: {len(body)}\r\n\r\n"
    await met.client.send(head.encode() + body)
    return await met.client.answer()


def events(stream: bytes) -> list[dict[str, Any]]:
    lines = [line for line in stream.split(b"\n") if line.startswith(b"data: {")]
    found = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    return [event for event in found if event.get("type") != "ping"]


@pytest.mark.parametrize("path", BODIES)
async def test_a_waiting_stream_begins_soon_and_its_error_is_an_event(path: str) -> None:
    async with meeting(slow_and_broken, **WAITING, **BUDGET) as met:
        answer = await ask(met, path, stream=True)

    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.body.startswith(SIGNS[path] * 2)
    (event,) = events(answer.body)
    error = event.get("response", event)["error"]
    assert error["message"] == "Out of memory."


async def test_each_api_ends_a_failed_stream_in_its_own_way() -> None:
    ends = {}
    for path in BODIES:  # each with a proxy of its own: one that failed is not tried again soon
        async with meeting(slow_and_broken, **WAITING, **BUDGET) as met:
            ends[path] = (await ask(met, path, stream=True)).body

    assert ends["chat/completions"].endswith(b"data: [DONE]\n\n")
    assert b"event: error\n" in ends["messages"]
    assert b"event: response.failed\n" in ends["responses"]


@pytest.mark.parametrize("path", BODIES)
async def test_an_answer_that_is_not_streamed_keeps_its_status(path: str) -> None:
    async with meeting(slow_and_broken, **WAITING, **BUDGET) as met:
        answer = await ask(met, path)

    assert answer.status == 500
    assert json.loads(answer.body)["error"]["message"] == "Out of memory."


async def test_a_web_page_may_read_a_stream_that_begins_so() -> None:
    page = "http://page.example"
    sections = {**WAITING, **BUDGET, "server": {"cors_origins": page}}
    async with meeting(slow_and_broken, **sections) as met:
        met.model.behaviour = slow_and_broken
        body = json.dumps({"model": "fake", "messages": CHAT, "stream": True}).encode()
        lines = ["POST /v1/chat/completions HTTP/1.1", "host: proxy", f"origin: {page}"]
        head = "\r\n".join([*lines, f"content-length: {len(body)}", "", ""])
        await met.client.send(head.encode() + body)
        answer = await met.client.answer()

    assert answer.headers["access-control-allow-origin"] == page


async def test_a_request_that_does_not_wait_so_long_keeps_its_status() -> None:
    async with meeting(slow_and_broken, **BUDGET, summary={"wait": "trigger"}) as met:
        started = own_time()
        answer = await ask(met, "chat/completions", stream=True)

    assert own_time() - started < 5
    assert answer.status == 500


class SlowSummaries:
    """Write no summary for a while, then refuse it; answer a chat with the stream of its API."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __call__(self, received: Received, line: Line) -> None:
        if received.method == "GET":
            await answer_json(line, MODELS)
            return
        if received.header("x-chat-proxy-purpose") == "summary":
            await asyncio.sleep(self._seconds)
            await answer_json(line, {"error": {"message": "Out of memory."}}, 500)
            return
        await begin_stream(line)
        for piece in [*story_of(received.target), b""]:
            await line.chunk(piece)


def story_of(target: str) -> list[bytes]:
    """Return the events of an answer in the API of a path."""
    return next(api.story() for api in APIS if target.startswith(api.path.partition("?")[0]))


async def streamed(path: str, behaviour: SlowSummaries, **summary: Any) -> RawAnswer:
    sections = {**BUDGET, "summary": {"wait": "trigger", **summary}}
    async with meeting(behaviour, **sections) as met:
        met.model.behaviour = behaviour
        body = json.dumps({"model": "fake", **BODIES[path], "stream": True}).encode()
        head = f"POST /v1/{path} HTTP/1.1\r\nhost: proxy\r\ncontent-length: {len(body)}\r\n\r\n"
        await met.client.send(head.encode() + body)
        return await met.client.answer()


@pytest.mark.parametrize("path", BODIES)
async def test_the_answer_follows_the_signs_unchanged(path: str) -> None:
    answer = await streamed(path, SlowSummaries(PAUSE), keep_alive_seconds=SIGN)

    rest = answer.body
    while rest.startswith(SIGNS[path]):
        rest = rest.removeprefix(SIGNS[path])
    assert answer.status == 200
    assert len(rest) < len(answer.body)
    assert rest == b"".join(story_of(f"/v1/{path}"))


async def test_without_any_setting_all_apis_have_one_sign_in_six_seconds() -> None:
    answers = await asyncio.gather(*(streamed(path, SlowSummaries(6.5)) for path in BODIES))

    for path, answer in zip(BODIES, answers, strict=True):
        assert answer.body == SIGNS[path] + b"".join(story_of(f"/v1/{path}"))


def test_the_first_sign_comes_after_five_seconds_unless_it_is_set_otherwise() -> None:
    assert Settings(_env_file=None).summary.keep_alive_seconds == 5
