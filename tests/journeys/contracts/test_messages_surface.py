"""Beta headers, what Claude Code sends by itself, counts, and who keeps a contract."""

import json
from typing import Any

import anthropic
import pytest

from tests.support.wires.messages_engines import (
    KINDS,
    Engine,
    Fields,
    Kind,
    chat,
    dumped,
    open_desk,
    run,
)

pytestmark = pytest.mark.anyio
ENGINES = pytest.mark.parametrize("kind", KINDS)
STREAMS = pytest.mark.parametrize("streams", [False, True])
CLAUDE_CODE = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
BETAS = ["context-management-2025-06-27", "compact-2026-01-12", "compact-2026-09-04"]
CLEAR: Fields = {
    "type": "clear_tool_uses_20250919",
    "trigger": {"type": "tool_uses", "value": 2},
    "keep": {"type": "tool_uses", "value": 1},
}
COMPACT: Fields = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 1_500}}


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp"])
@STREAMS
async def test_what_claude_code_sends_by_itself_changes_no_byte(
    *, kind: Kind, streams: bool
) -> None:
    sent: list[bytes] = []
    async with open_desk(Engine(kind)) as desk:
        raw = desk.sdk.beta.messages.with_raw_response
        for steps in (1, 2, 3):
            answer = await raw.create(
                model="fake",
                max_tokens=300,
                messages=run(steps),
                betas=BETAS[:1],
                context_management=CLAUDE_CODE,
                stream=streams,
            )
            sent.append(bytes(answer.http_request.content))
            assert answer.headers["x-chat-proxy-compaction"] == "none"

        assert [asked.received.body for asked in desk.engine.chats] == sent
    assert b'"clear_thinking_20251015"' in sent[0]


@STREAMS
async def test_before_a_strict_server_it_is_taken_out(*, streams: bool) -> None:
    async with open_desk(Engine("strict")) as desk:
        for steps in (1, 2, 3):
            message = await desk.ask(
                streams=streams,
                messages=run(steps),
                betas=BETAS[:1],
                context_management=CLAUDE_CODE,
            )
            assert message.content[0].text == "Well."

        assert len(desk.engine.refused) == 1
        assert desk.engine.prompt == run(3)


@ENGINES
async def test_the_proxy_compacts_by_itself_what_claude_code_sends(kind: Kind) -> None:
    async with open_desk(Engine(kind, window=4_096)) as desk:
        for turns in range(2, 20, 2):
            message = await desk.ask(
                messages=chat(turns), betas=BETAS[:1], context_management=CLAUDE_CODE
            )
            assert [block.type for block in message.content] == ["text"]

        assert desk.engine.summaries


async def test_betas_are_forwarded() -> None:
    async with open_desk(Engine()) as desk:
        await desk.ask(messages=run(4), betas=BETAS, context_management={"edits": [CLEAR, COMPACT]})

        assert desk.engine.chats[0].received.header("anthropic-beta") == ",".join(BETAS)


@pytest.mark.parametrize(
    "fields",
    [
        {"context_management": {"edits": [CLEAR, COMPACT]}},
        {"compaction": {"type": "summarize"}},
    ],
)
@STREAMS
async def test_without_its_beta_a_parameter_is_left_to_the_server(
    *, fields: Fields, streams: bool
) -> None:
    async with open_desk(Engine("vllm"), streams=streams) as desk:
        message = await desk.ask(messages=chat(8), extra_body=fields)
        assert [block.type for block in message.content] == ["text"]
        assert desk.engine.prompt == chat(8)
    async with open_desk(Engine("strict"), streams=streams) as desk:
        with pytest.raises(anthropic.BadRequestError, match="Extra inputs are not permitted"):
            await desk.ask(messages=chat(8), extra_body=fields)


async def test_a_wrong_value_is_refused_before_the_model_is_asked() -> None:
    wrong = {**CLEAR, "keep": {"type": "tool_uses", "value": -1}}
    async with open_desk(Engine()) as desk:
        with pytest.raises(anthropic.BadRequestError) as refused:
            await desk.ask(messages=run(4), betas=BETAS, context_management={"edits": [wrong]})

        assert desk.engine.chats == []
    body: Any = refused.value.body
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["message"].startswith("context_management.edits.0.keep.value: ")


async def test_what_the_upstream_keeps_passes_unchanged_and_is_not_compacted() -> None:
    async with open_desk(Engine(window=4_096), contracts="upstream") as desk:
        managed = {"edits": [CLEAR, COMPACT]}
        message = await desk.ask(messages=run(6), betas=BETAS, context_management=managed)

        assert desk.engine.prompt == run(6)
        assert desk.engine.chats[0].fields["context_management"] == managed
        assert desk.engine.summaries == []
    assert message.context_management is None


async def test_tokens_are_counted_as_they_would_be_sent() -> None:
    async with open_desk(Engine()) as desk:
        count = desk.sdk.beta.messages.count_tokens
        plain = await count(model="fake", messages=run(6))
        cleared = await count(
            model="fake",
            messages=run(6),
            betas=BETAS,
            context_management={"edits": [CLEAR]},
        )
        assert cleared.context_management is not None
        assert cleared.context_management.original_input_tokens == plain.input_tokens
        assert cleared.input_tokens < plain.input_tokens / 2

        message = await desk.ask(
            messages=chat(8), betas=BETAS, context_management={"edits": [COMPACT]}
        )
        history = [*chat(8), dumped(message), {"role": "user", "content": "Go on."}]
        folded = await count(model="fake", messages=history, betas=BETAS)
        assert folded.input_tokens < 1_500


async def test_counting_compacts_nothing_anew() -> None:
    async with open_desk(Engine()) as desk:
        count = desk.sdk.beta.messages.count_tokens
        over = await count(
            model="fake",
            messages=chat(8),
            betas=BETAS,
            context_management={"edits": [COMPACT]},
        )
        asked_alone = await count(
            model="fake",
            messages=chat(8),
            betas=BETAS,
            extra_body={"compaction": {"type": "summarize"}},
        )

        assert desk.engine.summaries == []
    assert over.input_tokens == asked_alone.input_tokens > 1_500


async def test_a_log_line_has_no_summary_and_no_seal(capsys: Any) -> None:
    async with open_desk(Engine()) as desk:
        message = await desk.ask(
            messages=chat(8), betas=BETAS, context_management={"edits": [COMPACT]}
        )
        block = json.dumps(dumped(message)["content"][0])

    logged = "".join(capsys.readouterr())
    assert "Question 3" not in logged
    assert json.loads(block)["encrypted_content"] not in logged
