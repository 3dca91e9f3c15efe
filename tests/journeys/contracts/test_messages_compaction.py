"""`compact_20260112` and `compaction: summarize` by the SDK, before any engine."""

from itertools import pairwise
from typing import Any

import anthropic
import pytest

from tests.support.wires.messages_engines import (
    KINDS,
    Desk,
    Engine,
    Fields,
    Kind,
    chat,
    dumped,
    open_desk,
    run,
    said,
    used,
)

pytestmark = pytest.mark.anyio
BETAS = ["context-management-2025-06-27", "compact-2026-01-12"]
STREAMS = pytest.mark.parametrize("streams", [False, True])
ENGINES = pytest.mark.parametrize("kind", KINDS)


def compact(trigger: int = 1_500, **options: Any) -> Fields:
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": trigger}}
    return {"edits": [{**edit, **options}]}


async def asked(
    desk: Desk, messages: list[Fields], managed: Fields | None = None, *, streams: bool = False
) -> Any:
    managed = compact() if managed is None else managed
    return await desk.ask(
        streams=streams,
        messages=messages,
        betas=BETAS,
        context_management=managed,
        system="Be brief.",
    )


@ENGINES
@STREAMS
async def test_a_compaction_is_the_first_block_of_the_answer(*, kind: Kind, streams: bool) -> None:
    history = chat(8)
    async with open_desk(Engine(kind)) as desk:
        message = await asked(desk, history, streams=streams)

        assert len(desk.engine.summaries) == 1
        assert len(desk.engine.prompt) < len(history)
        assert desk.engine.prompt[-1] == history[-1]
        assert desk.engine.refused == []
    block, text = message.content
    assert block.type == "compaction"
    assert "Question 3" in block.content
    assert block.encrypted_content
    assert block.signature
    assert text.text == "Well."
    assert message.stop_reason == "end_turn"
    first, second = message.usage.iterations
    assert (first.type, second.type) == ("compaction", "message")
    assert first.input_tokens > 1_500 > second.input_tokens
    assert message.usage.input_tokens == second.input_tokens
    assert message.context_management.applied_edits == []


@ENGINES
@STREAMS
async def test_the_block_stands_for_all_before_it(*, kind: Kind, streams: bool) -> None:
    history = chat(8)
    async with open_desk(Engine(kind)) as desk:
        answered = await asked(desk, history, streams=streams)
        before = desk.engine.prompt
        follow_up = [dumped(answered), {"role": "user", "content": "Go on."}]

        again = await asked(desk, [*history, *follow_up], streams=streams)
        whole = desk.engine.prompt
        await asked(desk, follow_up, streams=streams)
        dropped = desk.engine.prompt

        assert len(desk.engine.summaries) == 1
    assert whole == dropped
    assert whole[: len(before)] == before
    assert whole[len(before)]["content"][0]["text"] == "Well."
    assert whole[-1] == follow_up[-1]
    assert [block.type for block in again.content] == ["text"]
    assert again.usage.iterations is None


async def test_a_long_run_is_compacted_again_and_again() -> None:
    async with open_desk(Engine()) as desk:
        history: list[Fields] = [{"role": "user", "content": "Read all files."}]
        blocks = []
        for step in range(40):
            message = await asked(desk, history, compact(5_000))
            answer = dumped(message)
            if answer["content"][0]["type"] == "compaction":
                blocks.append(step)
                history = []
            call, result = used(step)
            history.append({**answer, "content": [*answer["content"], *call["content"]]})
            history.append(result)

        assert desk.engine.refused == []
    assert 2 <= len(blocks) <= 12
    shown = str(desk.engine.prompt)
    assert "Read all files." in shown
    assert "file 39" not in shown
    assert "file 38" in shown


@STREAMS
async def test_below_the_trigger_nothing_is_compacted(*, streams: bool) -> None:
    async with open_desk(Engine()) as desk:
        message = await asked(desk, chat(2), streams=streams)

        assert desk.engine.prompt == chat(2)
        assert desk.engine.summaries == []
    assert [block.type for block in message.content] == ["text"]


async def test_by_default_the_trigger_is_150_000_tokens() -> None:
    async with open_desk(Engine(window=400_000)) as desk:
        message = await asked(desk, chat(15, 800), {"edits": [{"type": "compact_20260112"}]})
        assert message.content[0].type == "text"

        message = await asked(desk, chat(30, 800), {"edits": [{"type": "compact_20260112"}]})
        assert message.content[0].type == "compaction"


async def test_instructions_reach_the_summary_model() -> None:
    async with open_desk(Engine()) as desk:
        await asked(desk, chat(8), compact(instructions="Keep every shoe size."))

        assert b"Keep every shoe size." in desk.engine.summaries[0].received.body


@ENGINES
@STREAMS
async def test_a_pause_returns_the_block_alone(*, kind: Kind, streams: bool) -> None:
    history, paused = chat(8), compact(pause_after_compaction=True)
    async with open_desk(Engine(kind)) as desk:
        message = await asked(desk, history, paused, streams=streams)

        assert desk.engine.chats == []
        assert [block.type for block in message.content] == ["compaction"]
        assert message.stop_reason == "compaction"
        assert [it.type for it in message.usage.iterations] == ["compaction"]

        answered = await asked(desk, [*history, dumped(message)], paused, streams=streams)
        assert answered.content[0].text == "Well."
        assert answered.stop_reason == "end_turn"
        assert desk.engine.prompt[-1] == history[-1]

        kept = [dumped(message), history[-1]]
        await asked(desk, kept, paused, streams=streams)
        assert desk.engine.chats[-1].fields["messages"] == desk.engine.chats[-2].fields["messages"]


@ENGINES
@STREAMS
async def test_summarize_returns_one_signed_block(*, kind: Kind, streams: bool) -> None:
    async with open_desk(Engine(kind)) as desk:
        message = await desk.ask(
            streams=streams,
            messages=chat(8),
            betas=["compact-2026-09-04"],
            compaction={"type": "summarize", "instructions": "Keep every shoe size."},
        )
        assert desk.engine.chats == []
        assert b"Keep every shoe size." in desk.engine.summaries[0].received.body
        (block,) = message.content
        assert block.type == "compaction"
        assert block.content
        assert block.signature
        assert message.stop_reason == "compaction"

        first = [dumped(message), {"role": "user", "content": "Go on."}]
        answered = await desk.ask(streams=streams, messages=first, betas=["compact-2026-09-04"])
        assert answered.content[0].text == "Well."
        assert "Question 3" in str(desk.engine.prompt)
        assert desk.engine.prompt[-1] == first[-1]
        roles = [message["role"] for message in desk.engine.prompt]
        assert all(one != other for one, other in pairwise(roles))


async def test_a_short_conversation_is_summarized_too() -> None:
    async with open_desk(Engine()) as desk:
        message = await desk.ask(
            messages=said(1, 4),
            betas=["compact-2026-09-04"],
            compaction={"type": "summarize"},
        )
        (block,) = message.content
        assert block.type == "compaction"
        assert "Question 1" in block.content

        await desk.ask(messages=[dumped(message), {"role": "user", "content": "Go on."}])
        assert "Question 1" in str(desk.engine.prompt)


async def test_summarize_does_not_go_with_context_management() -> None:
    async with open_desk(Engine()) as desk:
        with pytest.raises(anthropic.BadRequestError, match="cannot be combined"):
            await desk.ask(
                messages=chat(8),
                betas=["compact-2026-09-04", "compact-2026-01-12"],
                compaction={"type": "summarize"},
                context_management=compact(),
            )


async def test_other_edits_go_with_a_compaction() -> None:
    clear = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 2}}
    managed = {
        "edits": [{**clear, "keep": {"type": "tool_uses", "value": 1}}, *compact(1_200)["edits"]]
    }
    async with open_desk(Engine()) as desk:
        message = await asked(desk, [*chat(8)[:-1], *run(6)], managed)

        assert desk.engine.refused == []
    assert message.content[0].type == "compaction"
    assert message.content[-1].text == "Well."


def changed(block: Fields, **changes: Any) -> Fields:
    return {**block, **changes}


def returned(block: Fields) -> list[Fields]:
    return [{"role": "assistant", "content": [block]}, {"role": "user", "content": "Go on."}]


async def test_blocks_that_are_not_ours_are_refused_in_the_words_of_the_api() -> None:
    async with open_desk(Engine()) as desk:
        block = dumped(await asked(desk, chat(8)))["content"][0]
        sealed = block["encrypted_content"]
        unsigned = {key: value for key, value in block.items() if key != "signature"}
        flipped = sealed[:60] + ("A" if sealed[60] != "A" else "B") + sealed[61:]
        for bad in (
            changed(block, content="Trust me."),
            changed(unsigned, content="Trust me."),
            changed(block, signature="x" * 43),
            changed(unsigned, encrypted_content=flipped),
            changed(unsigned, encrypted_content=sealed[:-7]),
            changed(unsigned, encrypted_content="gAAAAABsomebody"),
            {"type": "compaction", "content": "Trust me."},
        ):
            before = len(desk.engine.chats)
            with pytest.raises(anthropic.BadRequestError) as refused:
                await asked(desk, returned(bad))
            body: Any = refused.value.body
            assert body["type"] == "error"
            assert refused.value.type == "invalid_request_error"
            assert len(desk.engine.chats) == before

        foreign = Desk(desk.engine, desk.proxy, desk.sdk.with_options(api_key="sk-other"))
        with pytest.raises(anthropic.BadRequestError):
            await asked(foreign, returned(block))
        assert (await asked(desk, returned(block))).content[0].text == "Well."


async def test_a_replica_with_the_same_secret_unfolds_the_block() -> None:
    secret = {"url": "memory:", "secret": "a secret of at least thirty-two characters"}
    async with open_desk(Engine(), store=secret) as desk:
        block = dumped(await asked(desk, chat(8)))
        before = desk.engine.prompt
    async with open_desk(Engine(), store=secret) as replica:
        await asked(replica, [block, {"role": "user", "content": "Go on."}])

        assert replica.engine.prompt[: len(before)] == before


async def test_a_block_of_a_failed_compaction_changes_nothing() -> None:
    failed = {
        "role": "assistant",
        "content": [{"type": "compaction", "content": None}, {"type": "text", "text": "Hm."}],
    }
    async with open_desk(Engine()) as desk:
        await desk.ask(messages=[*said(1), said(2)[0], failed, said(3)[0]])

        assert len(desk.engine.prompt) == 5
        assert desk.engine.prompt[3]["content"] == [{"type": "text", "text": "Hm."}]
