"""Rows B18 and B28 on all three wires: each engine's way of saying that a prompt is too long."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.journeys.summaries.talking import long_chat
from tests.support.fake_model import Line, answer_json, begin_stream
from tests.support.live import RawAnswer
from tests.support.wires.apis import ALL, CHAT, MESSAGES, RESPONSES, Api, named
from tests.support.wires.model import Asked, Refusing, WireModel, refusal, visited
from tests.support.wires.model import answer as model_answer
from tests.support.wires.talks import Step, messages_body, responses_body

pytestmark = pytest.mark.anyio

Fields = dict[str, Any]
WINDOW = 6_000
LONG = [Step(("function",), size=2_500, thinks=True, says=True) for _ in range(14)]
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def long_body(api: Api, **fields: Any) -> Fields:
    """Return a request that no window here has space for."""
    made: dict[str, Callable[..., Fields]] = {
        "messages": messages_body,
        "responses": responses_body,
    }
    if api is CHAT:
        return {"model": "fake", "messages": long_chat(20, 500), **fields}
    return made[api.name](LONG, **fields)


async def vllm(asked: Asked, line: Line) -> None:
    await answer_json(line, refusal(asked, WINDOW), 400)


async def llama_cpp(asked: Asked, line: Line) -> None:
    words = f"request ({asked.tokens} tokens) exceeds the available context size ({WINDOW} tokens)"
    error = {"code": 400, "message": words, "type": "exceed_context_size_error"}
    numbers = {"n_prompt_tokens": asked.tokens, "n_ctx": WINDOW}
    await answer_json(line, {"error": {**error, **numbers}}, 400)


async def sglang(asked: Asked, line: Line) -> None:
    longer = "is longer than the model's context length"
    words = f"The input ({asked.tokens} tokens) {longer} ({WINDOW} tokens)."
    error = {"type": "invalid_request_error", "message": words}
    document = {"object": "error", "message": words, "type": "BadRequestError", "code": 400}
    body = {"type": "error", "error": error} if asked.api is MESSAGES else document
    await answer_json(line, body, 400)


async def lm_studio(asked: Asked, line: Line) -> None:
    """A success whose only event is an error, without an end."""
    words = (
        f"Trying to keep the first {asked.tokens} tokens when context the overflows. However, the "
        f"model is loaded with context length of only {WINDOW} tokens, which is not enough."
    )
    error = {"type": "invalid_request_error", "message": words}
    if not asked.fields.get("stream"):
        await answer_json(line, {"error": words}, 400)
        return
    await begin_stream(line)
    await line.chunk(named({"type": "error", "error": error}))
    await line.chunk(b"")


async def in_band(asked: Asked, line: Line) -> None:
    """The way of servers that begin a stream before they look at the prompt."""
    if asked.api is not RESPONSES or not asked.fields.get("stream"):
        await llama_cpp(asked, line)
        return
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window"}
    failed = {"id": "resp_1", "object": "response", "status": "failed", "error": error}
    await begin_stream(line)
    await line.chunk(RESPONSES.begins[0][:20])
    await line.chunk(RESPONSES.begins[0][20:])
    await line.chunk(named({"type": "response.in_progress", "response": {}}))
    await line.chunk(named({"type": "response.failed", "response": failed}))
    await line.chunk(b"")


ENGINES = (vllm, llama_cpp, sglang, lm_studio, in_band)


def over(window: int, saying: Any) -> Refusing:
    """Refuse what does not fit, in an engine's words."""

    async def refuse(asked: Asked, line: Line) -> bool:
        is_long = asked.tokens + max(1, asked.output) > window
        if is_long:
            await saying(asked, line)
        return is_long

    return refuse


def is_answer(api: Api, answer: RawAnswer) -> bool:
    """Tell whether it is what the model said, whole and with nothing else."""
    is_clean = b'"error":{' not in answer.body and b"event: error" not in answer.body
    return answer.status == 200 and b"Well." in answer.body and is_clean


@ALL
@STREAMS
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
async def test_b18_what_an_engine_calls_too_long_is_sent_again_smaller(
    api: Api, stream: bool, engine: Any
) -> None:
    server = WireModel(refusing=over(WINDOW, engine))
    async with visited(server, budget={"context_window": 100_000, "prepare": 1}) as they:
        first = await they.say(api, long_body(api, stream=stream))
        asked = len(server.chats)
        again = await they.say(api, long_body(api, stream=stream))

    assert is_answer(api, first), first.body
    assert 2 <= asked <= 3
    assert first.headers["x-chat-proxy-stages"].endswith("replay")
    assert is_answer(api, again)


def words_of(api: Api, document: Fields) -> str:
    return str(document["error"]["message"])


@ALL
@STREAMS
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
async def test_b18_what_stays_too_long_is_told_in_the_words_of_the_api(
    api: Api, stream: bool, engine: Any
) -> None:
    """Clients of Messages compact by themselves when they read them."""
    server = WireModel(refusing=over(10, engine))
    async with visited(server, budget={"context_window": 100_000, "prepare": 1}) as they:
        answer = await they.say(api, long_body(api, stream=stream))

    if api is CHAT:
        assert answer.status >= 400
        return
    assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
    document = json.loads(answer.body)
    if api is MESSAGES:
        assert api.error_of(document) == "invalid_request_error"
        said = words_of(api, document).split()
        assert said[:4] == ["prompt", "is", "too", "long:"]
        assert (said[5:7], said[8]) == (["tokens", ">"], "maximum")
        assert int(said[4]) > int(said[7]) > 0
    else:
        assert api.error_of(document) == "context_length_exceeded"


@pytest.mark.parametrize("api", [RESPONSES, MESSAGES], ids=str)
@pytest.mark.parametrize("status", [413, 422, 500])
async def test_b18_a_refusal_has_the_status_that_clients_understand(api: Api, status: int) -> None:
    """A client would send a request that failed with 500 again, as it is."""

    async def refuse(asked: Asked, line: Line) -> bool:
        words = "This model's maximum context length is 600 tokens. However, your prompt is longer."
        await answer_json(line, {"error": {"message": words}}, status, "x-kept: yes")
        return True

    async with visited(WireModel(refusing=refuse)) as they:
        answer = await they.say(api, long_body(api))

    assert (answer.status, answer.headers["x-kept"]) == (400, "yes")
    assert b"too long" in answer.body or b"context_length_exceeded" in answer.body


@pytest.mark.parametrize("api", [RESPONSES, MESSAGES], ids=str)
async def test_b12_b18_what_stays_too_long_behind_a_ping_ends_the_stream(api: Api) -> None:
    """The status is gone: the words are in the last event."""

    async def refuse(asked: Asked, line: Line) -> bool:
        if asked.is_summary:
            return False
        await vllm(asked, line)
        return True

    async def late(asked: Asked, line: Line) -> None:
        await asyncio.sleep(0.4)
        await answer_json(line, {"error": {"message": "no"}}, 500)

    server = WireModel(telling=late, refusing=refuse)
    budget = {"context_window": WINDOW, "prepare": 1}
    summary = {"wait": "trigger", "keep_alive_seconds": 0.1}
    async with visited(server, budget=budget, summary=summary) as they:
        answer = await they.say(api, long_body(api, stream=True))

    assert answer.status == 200
    assert (
        b"prompt is too long: " if api is MESSAGES else b"context_length_exceeded"
    ) in answer.body
    last = answer.body.strip().rpartition(b"\n\n")[2]
    assert last.startswith(b"event: error" if api is MESSAGES else b"event: response.failed")
    assert answer.body.startswith(b"event: ping" if api is MESSAGES else b": compacting")


@ALL
async def test_b28_a_prompt_that_was_cut_silently_is_sent_again(api: Api) -> None:
    """Ollama cuts the front, answers, and counts what it saw."""

    async def cut(asked: Asked, line: Line) -> bool:
        if asked.is_summary or asked.tokens <= WINDOW:
            return False
        await model_answer(asked, line, "Well.", tokens=WINDOW // 2 + 2)
        return True

    server = WireModel(refusing=cut, owner="library")
    async with visited(server) as they:
        answer = await they.say(api, long_body(api))

    assert is_answer(api, answer)
    assert len(server.chats) == 2
    assert server.chats[1].tokens <= WINDOW
    assert they.figure('chat_proxy_silent_truncation_total{result="replayed"}') == 1
