"""C1 to C5 on all three wires: a summary is asked for in the wire of the request, and may fail."""

import asyncio
from typing import Any

import pytest

from tests.journeys.summaries.talking import long_chat
from tests.journeys.wires.test_moved_marks import unmarked
from tests.support.fake_model import Line, answer_json, begin_stream
from tests.support.live import RawAnswer
from tests.support.wires.apis import ALL, CHAT, MESSAGES, RESPONSES, Api, named
from tests.support.wires.messages_rules import messages_violations
from tests.support.wires.model import Asked, Telling, Visitor, WireModel, answer, tell, visited
from tests.support.wires.responses_rules import responses_violations
from tests.support.wires.talks import Step, messages_body, responses_body

pytestmark = pytest.mark.anyio

Fields = dict[str, Any]
WINDOW = 8_000
TALK = [Step(size=1_400) for _ in range(10)]
SECTIONS: dict[str, dict[str, Any]] = {
    "budget": {"context_window": WINDOW, "prepare": 1},
    "summary": {"wait": "trigger", "timeout_seconds": 1},
}
RULES = {"messages": messages_violations, "responses": responses_violations}


def long_body(api: Api, **fields: Any) -> Fields:
    """Return a request over the trigger and within the window."""
    if api is CHAT:
        return {"model": "fake", "messages": long_chat(15), **fields}
    made = messages_body if api is MESSAGES else responses_body
    return made(TALK, **fields)


async def unavailable(asked: Asked, line: Line) -> None:
    await answer_json(line, {"error": {"message": "no"}}, 503)


async def garbage(asked: Asked, line: Line) -> None:
    await begin_stream(line)
    await line.chunk(b'event: x\ndata: {"type"\n\n')
    await line.chunk(b"")


async def breaking_off(asked: Asked, line: Line) -> None:
    await begin_stream(line)
    await line.chunk(asked.api.words(asked.summary))
    await line.chunk(b"")


async def erring(asked: Asked, line: Line) -> None:
    """Say something, and then an error: what was said is no summary."""
    await begin_stream(line)
    await line.chunk(asked.api.words(asked.summary))
    await line.chunk(asked.api.error)
    await line.chunk(b"")


async def empty(asked: Asked, line: Line) -> None:
    await answer(asked, line, "")


async def endless(asked: Asked, line: Line) -> None:
    """Come to no end: what there is looks like a summary."""
    await begin_stream(line)
    await line.chunk(asked.api.words(asked.summary))
    for piece in _cut_short(asked.api, asked.summary):
        await line.chunk(piece)
    await line.chunk(b"")


def _cut_short(api: Api, text: str) -> tuple[bytes, ...]:
    if api is CHAT:
        return tuple(piece.replace(b'"stop"', b'"length"') for piece in api.ends)
    if api is MESSAGES:
        return tuple(piece.replace(b'"end_turn"', b'"max_tokens"') for piece in api.ends)
    (item,) = api.whole["output"]
    said = [{"type": "output_text", "text": text, "annotations": []}]
    response = {
        **api.whole,
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [{**item, "content": said}],
    }
    return (named({"type": "response.incomplete", "response": response}),)


async def late(asked: Asked, line: Line) -> None:
    await asyncio.sleep(5)


def is_passed_by(they: Visitor, answered: RawAnswer, body: Fields) -> bool:
    """Tell whether the request went on as it was."""
    label = answered.headers["x-chat-proxy-compaction"]
    return (answered.status, label, they.server.chats[-1].fields) == (200, "failed-open", body)


@ALL
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_c2_a_summary_is_asked_for_in_the_wire_of_the_request(api: Api, stream: bool) -> None:
    async with visited(WireModel(), **SECTIONS) as they:
        answered = await they.say(api, long_body(api, stream=stream))

    assert answered.headers["x-chat-proxy-compaction"] == "built"
    (question,) = they.server.summaries
    assert question.api is api
    assert question.fields["stream"] is True
    wrong = RULES[api.name](question.fields) if api.name in RULES else []
    assert wrong == []


@pytest.mark.parametrize("api", [MESSAGES, RESPONSES], ids=str)
async def test_c2_a_question_continues_the_prompt_that_is_cached(api: Api) -> None:
    """Instructions, tools and the messages so far, byte for byte; then what is asked."""
    made = messages_body if api is MESSAGES else responses_body
    key = "messages" if api is MESSAGES else "input"
    async with visited(WireModel(), **SECTIONS) as they:
        await they.say(api, made(TALK[:8]))
        longer = made([*TALK, TALK[0]])
        answered = await they.say(api, longer)

    assert answered.headers["x-chat-proxy-compaction"] == "built"
    first = they.server.chats[0].fields
    (question,) = they.server.summaries
    for name in ("system", "instructions", "tools"):
        assert question.fields.get(name) == first.get(name)
    *seen, _ = question.fields[key]
    assert len(seen) > 10
    assert unmarked(seen) == unmarked(longer[key][: len(seen)])
    assert RULES[api.name](question.fields) == []


@ALL
@pytest.mark.parametrize(
    ("telling", "reason"),
    [
        (unavailable, "unavailable"),
        (garbage, "unavailable"),
        (breaking_off, "unavailable"),
        (erring, "unavailable"),
        (empty, "empty"),
        (endless, "length"),
        (late, "timeout"),
    ],
    ids=lambda it: getattr(it, "__name__", it),
)
async def test_c1_c2_c3_c5_a_request_goes_on_without_the_summary(
    api: Api, telling: Telling, reason: str
) -> None:
    body = long_body(api, stream=True)
    async with visited(WireModel(telling=telling), **SECTIONS) as they:
        answered = await they.say(api, body)

        assert is_passed_by(they, answered, body), (answered.headers, they.server.summaries)
        assert they.figure(f'chat_proxy_summaries_fail_total{{reason="{reason}"}}') == 1


@ALL
async def test_c2_another_summary_model_is_asked_by_chat_completions(api: Api) -> None:
    """Whatever the client speaks: only the request's own model has its prompt in a cache."""
    other = WireModel()
    async with visited(other) as elsewhere:
        summary = {**SECTIONS["summary"], "base_url": elsewhere.model.url, "model": "small"}
        async with visited(WireModel(), budget=SECTIONS["budget"], summary=summary) as they:
            answered = await they.say(api, long_body(api))

    assert answered.headers["x-chat-proxy-compaction"] == "built"
    assert they.server.summaries == []
    assert [question.api.name for question in other.summaries] == ["chat"]


@ALL
async def test_c1_a_stream_is_kept_open_in_the_wire_s_own_way(api: Api) -> None:
    async def slow(asked: Asked, line: Line) -> None:
        await asyncio.sleep(0.5)
        await tell(asked, line)

    summary = {"wait": "trigger", "timeout_seconds": 5, "keep_alive_seconds": 0.1}
    async with visited(WireModel(telling=slow), budget=SECTIONS["budget"], summary=summary) as they:
        answered = await they.say(api, long_body(api, stream=True))

    kept = api.ping if api is MESSAGES else b": compacting\n\n"
    assert answered.body.startswith(kept * 2)
    assert b"Well." in answered.body
    assert they.server.chats[-1].tokens < WINDOW // 2
