"""What is not replayed: look-alikes, other modes, and answers that have begun."""

import asyncio
import json
from typing import Any

import pytest

from tests.journeys.replay.small_server import (
    BELIEVED,
    Guest,
    body_of,
    in_words,
    is_answer,
    over,
    stages_of,
    visiting,
    vllm,
)
from tests.journeys.summaries.talking import long_chat
from tests.support.fake_model import Line, Received, begin_stream, delta, event
from tests.support.meeting import meeting

pytestmark = pytest.mark.anyio

WINDOW = 4_000


LOOK_ALIKES: dict[str, tuple[int, dict[str, Any]]] = {
    "429": (429, {"error": {"message": "This model's maximum context length is 4000 tokens."}}),
    "429, with a code": (429, {"error": {"message": "x", "code": "context_length_exceeded"}}),
    "rate limit in 400": (
        400,
        {"error": {"message": "4000 tokens per min. Reduce the length of the messages."}},
    ),
    "another 400": (400, {"error": {"message": "tools must not be empty", "code": 400}}),
    "a text too long": (
        400,
        {"error": {"message": "string too long", "code": "string_above_max_length"}},
    ),
    "401": (401, {"error": {"message": "maximum context length is 4000 tokens"}}),
    "503": (503, {"error": {"message": "maximum context length is 4000 tokens"}}),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
async def test_a_look_alike_passes_untouched(name: str) -> None:
    """BUGS 14."""
    status, document = LOOK_ALIKES[name]
    body = body_of(long_chat())
    async with visiting(in_words(WINDOW, status, document)) as guest:
        answer = await guest.send(body)

    assert (answer.status, answer.body) == (status, json.dumps(document).encode())
    assert guest.calls == [body]
    assert guest.replays("sent") == guest.replays("exhausted") == 0


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("asked", [0, -1, -2, -100])
async def test_whoever_asks_for_no_output_is_told_so_at_once(asked: int, field: str) -> None:
    """A prompt that fills the window is refused in the same words: see the replay's journeys."""
    document = json.loads(vllm(f"max_tokens must be at least 1, got {asked}. (parameter=x)"))
    body = body_of(long_chat(), **{field: asked})
    async with visiting(in_words(WINDOW, 400, document)) as guest:
        answer = await guest.send(body)

    assert (answer.status, answer.body) == (400, json.dumps(document).encode())
    assert guest.calls == [body]


async def refused_as_sent(guest: Guest, *headers: str, stream: bool = False) -> None:
    """Send what is too long, and see it refused as if there were no proxy."""
    body = body_of(long_chat(), stream=stream)
    answer = await guest.send(body, *headers)
    assert (answer.status, answer.body) == (400, guest.server.refusals[0].body)
    assert guest.calls == [body]
    assert "replay" not in stages_of(answer)
    assert guest.replays("sent") == guest.replays("exhausted") == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_no_mode_but_on_replays(mode: str, stream: bool) -> None:
    async with visiting(over(WINDOW), mode=mode) as guest:
        await refused_as_sent(guest, stream=stream)


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_a_request_may_say_that_it_wants_no_replay(mode: str) -> None:
    async with visiting(over(WINDOW)) as guest:
        await refused_as_sent(guest, f"x-chat-proxy-mode: {mode}")


@pytest.mark.parametrize("stream", [False, True])
async def test_with_replays_off_the_refusal_passes_byte_for_byte(stream: bool) -> None:
    async with visiting(over(WINDOW), replay={"enabled": False}) as guest:
        await refused_as_sent(guest, stream=stream)


async def test_one_model_may_have_no_replays(tmp_path: Any) -> None:
    file = tmp_path / "registry.json"
    file.write_text(json.dumps([{"name": "plain", "overrides": {"replay_enabled": False}}]))
    async with visiting(over(WINDOW), registry={"file": str(file)}) as guest:
        refused = await guest.tell(long_chat(), model="plain")
        answered = await guest.tell(long_chat())

    assert (refused.status, refused.body) == (400, guest.server.refusals[0].body)
    assert is_answer(answered)


async def test_an_overflow_in_the_middle_of_a_stream_is_relayed() -> None:
    error = json.loads(vllm("This model's maximum context length is 4000 tokens."))

    async def break_off(_: Received, line: Line) -> None:
        await begin_stream(line)
        await line.chunk(delta("Once "))
        await line.chunk(event(error))
        await line.chunk(b"data: [DONE]\n\n")
        await line.chunk(b"")

    async with meeting(break_off, budget={"context_window": BELIEVED}) as met:
        answer = await met.ask(messages=long_chat(), stream=True)

    assert answer.status == 200
    assert answer.body == delta("Once ") + event(error) + b"data: [DONE]\n\n"
    assert met.chats == 1


async def test_an_overflow_behind_a_ping_is_relayed() -> None:
    """The answer has begun: a second one cannot follow it."""
    error = json.loads(vllm("This model's maximum context length is 4000 tokens."))

    async def think_long(_: Received, line: Line) -> None:
        await begin_stream(line)
        await asyncio.sleep(0.3)
        await line.chunk(event(error))
        await line.chunk(b"")

    roomy = {"context_window": BELIEVED}
    async with meeting(think_long, budget=roomy, server={"ping_seconds": 0.05}) as met:
        answer = await met.ask(messages=long_chat(), stream=True)

    assert answer.status == 200
    assert answer.body.startswith(b": ping\n\n")
    assert event(error) in answer.body
    assert met.chats == 1
