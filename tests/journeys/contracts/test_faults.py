"""Failing parts and other tenants: what a contract does when things go wrong."""

import asyncio
import json

import pytest

from chat_proxy.compaction.contracts import sealed
from chat_proxy.proxy.contracts import seals
from chat_proxy.wires.responses.wire import Responses
from tests.support.fake_model import Line, Received, answer_json, begin_stream
from tests.support.wire_model import answer_on, named
from tests.support.wires import messages_engines, responses_engines
from tests.support.wires.contract_requests import BETAS, compact, post
from tests.support.wires.messages_engines import Fields, chat, dumped, run
from tests.support.wires.responses_engines import TRIGGER, management, talk

pytestmark = pytest.mark.anyio
NEXT: Fields = {"role": "user", "content": "And then?"}
NOTHING: Fields = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}


async def test_a_tenant_learns_of_a_refusal_for_itself_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Responses, "keeping_hosts", ("127.0.0.1",))
    async with responses_engines.open_desk("strict") as desk:
        asked = []
        for key in ("sk-one", "sk-one", "sk-two", "sk-two"):
            before = len(desk.engine.bodies)
            await desk.ask(key, input=talk(), context_management=management())
            sent = desk.engine.bodies[before:]
            asked.append([b"context_management" in body for body in sent])

    assert asked == [[True, False], [False], [True, False], [False]]


async def test_a_mistake_of_a_client_is_no_refusal_to_learn_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Responses, "keeping_hosts", ("127.0.0.1",))

    async def hosted(received: Received, line: Line) -> None:
        body = json.loads(received.body or b"{}")
        words = "Invalid value: 'x'. Supported values are: 'compaction'. context_management[0].type"
        if body.get("context_management") == [{"type": "x"}]:
            await answer_json(line, {"error": {"message": words, "code": "invalid_value"}}, 400)
        else:
            await answer_on("/v1/responses", line, "Well.", 9, streams=False)

    async with responses_engines.open_desk(engine=hosted) as desk:  # type: ignore[arg-type]
        body = {"model": "fake", "input": talk()}
        wrong = {**body, "context_management": [{"type": "x"}]}
        refused = await post(desk.url, "/v1/responses", wrong)
        right = {**body, "context_management": management()}
        answered = await post(desk.url, "/v1/responses", right)

    assert refused.json()["error"]["code"] == "invalid_value"
    assert [item["type"] for item in answered.json()["output"]] == ["message"]
    assert answered.headers["x-chat-proxy-compaction"] == "off"


async def test_an_upstream_that_keeps_contracts_may_refuse_what_asks_for_nothing() -> None:
    engine = messages_engines.Engine("strict")
    async with messages_engines.open_desk(engine, contracts="upstream") as desk:
        assert desk.proxy is not None
        body = {"model": "fake", "max_tokens": 9, "messages": run(1), "context_management": NOTHING}
        answer = await post(desk.proxy.url, "/v1/messages", body)

    assert answer.status_code == 400
    assert len(engine.chats) == 1


async def test_a_count_that_a_strict_server_refuses_is_answered_by_the_proxy() -> None:
    class Strict(messages_engines.Engine):
        async def __call__(self, received: Received, line: Line) -> None:
            if "count_tokens" not in received.target:
                await super().__call__(received, line)
            elif b"context_management" in received.body:
                words = "context_management: Extra inputs are not permitted"
                await answer_json(line, {"type": "error", "error": {"message": words}}, 400)
            else:
                await answer_json(line, {"input_tokens": 77})

    async with messages_engines.open_desk(Strict("strict")) as desk:
        count = desk.sdk.beta.messages.count_tokens
        asked = {"model": "fake", "messages": run(3), "betas": BETAS}
        ours = await count(**asked, context_management=NOTHING)
        theirs = await count(**asked)

    assert theirs.input_tokens == 77
    assert ours.input_tokens > 500


async def test_an_item_that_the_store_does_not_take_is_carried_by_its_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seals, "MAX_CARRIED_BYTES", 100)
    away = {"url": "redis://127.0.0.1:1/0", "secret": "a secret of the deployment, long enough"}
    async with responses_engines.open_desk(store=away) as desk:
        answer = await desk.ask(input=[*talk(), TRIGGER])
        assert len(answer.output[0].encrypted_content) > 500

        await desk.ask(input=[*responses_engines.dumped(answer.output), NEXT])

        assert b"Question 0" in desk.engine.bodies[-1]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_prompt_that_is_too_long_to_be_sealed_is_not_lost(
    *, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "MAX_PLAIN_BYTES", 100)
    async with messages_engines.open_desk(messages_engines.Engine(), streams=streams) as desk:
        pausing = compact(pause_after_compaction=True)
        message = await desk.ask(messages=chat(8), betas=BETAS, context_management=pausing)
        assert [block.type for block in message.content] == ["text"]
        assert desk.proxy is not None
        alone = {"compaction": {"type": "summarize"}, "stream": streams}
        body = {"model": "fake", "max_tokens": 9, "messages": chat(8), **alone}
        refused = await post(desk.proxy.url, "/v1/messages", body)

    assert refused.status_code == 413
    assert refused.json()["error"]["type"] == "request_too_large"


@pytest.mark.parametrize("text", ["", "I'm sorry, I can't help with that.", "<think>Hm.</think>"])
@pytest.mark.parametrize("streams", [False, True])
async def test_notes_stand_for_a_useless_summary_only_where_nothing_else_is_asked(
    *, text: str, streams: bool
) -> None:
    class Useless(messages_engines.Engine):
        async def __call__(self, received: Received, line: Line) -> None:
            if received.header("x-chat-proxy-purpose") == "summary":
                path = received.target.partition("?")[0]
                await answer_on(path, line, text, 9, streams=True)
            else:
                await super().__call__(received, line)

    async with messages_engines.open_desk(Useless(), streams=streams) as desk:
        pausing = compact(pause_after_compaction=True)
        message = await desk.ask(messages=chat(8), betas=BETAS, context_management=pausing)
        assert [block.type for block in message.content] == ["text"]
        alone = await desk.ask(messages=chat(8), betas=BETAS, compaction={"type": "summarize"})
        history = [dumped(alone), NEXT]
        await desk.ask(messages=history, betas=BETAS)

        assert "Notes from those messages" in str(desk.engine.prompt)
        assert "Question 7" in str(desk.engine.prompt)


@pytest.mark.parametrize("ends", ["reset", "half an event", "no end", "error"])
async def test_a_stream_that_breaks_behind_the_block_does_not_look_complete(ends: str) -> None:
    class Breaking(messages_engines.Engine):
        async def __call__(self, received: Received, line: Line) -> None:
            is_summary = received.header("x-chat-proxy-purpose") == "summary"
            if received.method != "POST" or is_summary:
                await super().__call__(received, line)
                return
            await begin_stream(line)
            usage = {"input_tokens": 9, "output_tokens": 0}
            message: Fields = {"id": "m", "type": "message", "role": "assistant", "model": "fake"}
            message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
            await line.chunk(named({"type": "message_start", "message": message}))
            block = {"type": "text", "text": ""}
            begun = {"type": "content_block_start", "index": 0, "content_block": block}
            await line.chunk(named(begun))
            if ends == "half an event":
                await line.chunk(b'event: content_block_delta\ndata: {"type": "conten')
            if ends == "error":
                error = {"type": "overloaded_error", "message": "busy"}
                await line.chunk(named({"type": "error", "error": error}))
            if ends in ("no end", "error"):
                await line.chunk(b"")
            else:
                line.reset()

    async with messages_engines.open_desk(Breaking()) as desk:
        assert desk.proxy is not None
        body = {"model": "fake", "max_tokens": 9, "messages": chat(8), "stream": True}
        asked = {**body, "context_management": compact()}
        answer = await post(desk.proxy.url, "/v1/messages", asked)

    lines = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
    events = [json.loads(line) for line in lines]
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "error",
    ]
    assert [event["index"] for event in events[1:5]] == [0, 0, 0, 1]


async def test_a_client_that_leaves_has_its_summary_written_all_the_same() -> None:
    class Slow(messages_engines.Engine):
        begun = asyncio.Event()
        may_end = asyncio.Event()

        async def __call__(self, received: Received, line: Line) -> None:
            if received.header("x-chat-proxy-purpose") == "summary":
                self.begun.set()
                await self.may_end.wait()
            await super().__call__(received, line)

    engine = Slow()
    async with messages_engines.open_desk(engine) as desk:
        asked: Fields = {"messages": chat(8), "betas": BETAS, "compaction": {"type": "summarize"}}
        leaving = asyncio.create_task(desk.ask(**asked))
        await engine.begun.wait()
        leaving.cancel()
        await asyncio.wait({leaving})
        engine.may_end.set()
        message = await desk.ask(**asked)

    assert [block.type for block in message.content] == ["compaction"]
    assert len(engine.summaries) == 1
