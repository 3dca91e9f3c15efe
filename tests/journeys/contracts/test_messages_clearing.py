"""`clear_tool_uses_20250919` and `clear_thinking_20251015` by the SDK, before any engine."""

import json
from typing import Any

import pytest

from chat_proxy.compaction.ageing.line import RESULT_NOTE
from tests.support.wires.messages_engines import (
    KINDS,
    Desk,
    Engine,
    Fields,
    Kind,
    open_desk,
    run,
    used,
)

pytestmark = pytest.mark.anyio
BETAS = ["context-management-2025-06-27"]
STREAMS = pytest.mark.parametrize("streams", [False, True])
ENGINES = pytest.mark.parametrize("kind", KINDS)


def uses(value: int) -> Fields:
    return {"type": "tool_uses", "value": value}


def tokens(value: int) -> Fields:
    return {"type": "input_tokens", "value": value}


async def edited(desk: Desk, messages: list[Fields], *edits: Fields, streams: bool = False) -> Any:
    return await desk.ask(
        streams=streams,
        messages=messages,
        betas=BETAS,
        context_management={"edits": list(edits)},
    )


def clear(**options: Any) -> Fields:
    return {"type": "clear_tool_uses_20250919", "trigger": uses(3), "keep": uses(2), **options}


def cleared_in(prompt: list[Fields]) -> list[int]:
    """The numbers of the tool uses whose results are cleared."""
    results = [
        block
        for message in prompt
        if type(message["content"]) is list
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    texts = [json.dumps(block["content"]) for block in results]
    return [number for number, text in enumerate(texts) if RESULT_NOTE in text]


def inputs_in(prompt: list[Fields]) -> list[Fields]:
    blocks = [block for it in prompt if type(it["content"]) is list for block in it["content"]]
    return [block["input"] for block in blocks if block["type"] == "tool_use"]


@ENGINES
@STREAMS
async def test_old_results_are_cleared_and_reported(*, kind: Kind, streams: bool) -> None:
    async with open_desk(Engine(kind)) as desk:
        message = await edited(desk, run(6), clear(), streams=streams)

        assert cleared_in(desk.engine.prompt) == [0, 1, 2, 3]
        assert inputs_in(desk.engine.prompt)[0] == {"path": "file_0.txt"}
        assert desk.engine.refused == []
    (applied,) = message.context_management.applied_edits
    assert applied.type == "clear_tool_uses_20250919"
    assert applied.cleared_tool_uses == 4
    assert applied.cleared_input_tokens > 4 * 200
    assert message.content[0].text == "Well."
    assert message.stop_reason == "end_turn"


@STREAMS
async def test_below_the_trigger_nothing_is_cleared(*, streams: bool) -> None:
    async with open_desk(Engine()) as desk:
        message = await edited(desk, run(3), clear(), streams=streams)

        assert desk.engine.prompt == run(3)
    assert message.context_management.applied_edits == []


async def test_a_trigger_by_tokens_looks_at_the_prompt_as_it_was_cleared() -> None:
    edit = clear(trigger=tokens(3_000), keep=uses(1))
    async with open_desk(Engine()) as desk:
        shown = []
        for steps in range(1, 16):
            await edited(desk, run(steps), edit)
            shown.append(desk.engine.prompt)
    changes = [
        steps
        for steps in range(1, len(shown))
        if shown[steps][: len(shown[steps - 1])] != shown[steps - 1]
    ]
    assert 1 <= len(changes) <= 4
    assert cleared_in(shown[changes[0]]) == list(range(changes[0]))


async def test_too_little_to_clear_is_not_worth_it() -> None:
    async with open_desk(Engine()) as desk:
        await edited(desk, run(6), clear(clear_at_least=tokens(50_000)))
        assert cleared_in(desk.engine.prompt) == []

        await edited(desk, run(6), clear(clear_at_least=tokens(500)))
        assert cleared_in(desk.engine.prompt) == [0, 1, 2, 3]


async def test_excluded_tools_stay() -> None:
    async with open_desk(Engine()) as desk:
        await edited(desk, run(6, "read", "search"), clear(exclude_tools=["search"]))

        assert cleared_in(desk.engine.prompt) == [0, 2]


@pytest.mark.parametrize(("wish", "cleared"), [(True, [0, 1, 2, 3]), (["search"], [1, 3])])
async def test_inputs_are_cleared_of_all_or_of_some_tools(wish: Any, cleared: list[int]) -> None:
    async with open_desk(Engine()) as desk:
        await edited(desk, run(6, "read", "search"), clear(clear_tool_inputs=wish))

        inputs = inputs_in(desk.engine.prompt)
    assert [number for number, given in enumerate(inputs) if given == {}] == cleared


async def test_what_was_cleared_stays_cleared_after_a_restart(tmp_path: Any) -> None:
    store = {"url": f"sqlite:///{tmp_path}/store.db"}
    engine = Engine()
    async with open_desk(engine, store=store) as desk:
        await edited(desk, run(5), clear(keep=uses(1)))
        before = engine.prompt
    async with open_desk(engine, store=store) as desk:
        message = await edited(desk, run(6), clear(keep=uses(1)))

    assert engine.prompt[: len(before)] == before
    assert cleared_in(engine.prompt) == [0, 1, 2, 3]
    assert message.context_management.applied_edits[0].cleared_tool_uses == 4


async def test_another_tenant_shares_nothing_of_it() -> None:
    async with open_desk(Engine()) as desk:
        await edited(desk, run(5), clear(keep=uses(1)))
        other = Desk(desk.engine, desk.proxy, desk.sdk.with_options(api_key="sk-other"))
        await edited(other, run(5), clear(trigger=uses(9)))

        assert cleared_in(desk.engine.prompt) == []


async def test_results_of_a_parallel_call_keep_their_pairs() -> None:
    calls = [used(number) for number in range(4)]
    both: list[Fields] = [
        {"role": "user", "content": "Read."},
        {"role": "assistant", "content": [it[0]["content"][0] for it in calls]},
        {"role": "user", "content": [it[1]["content"][0] for it in calls]},
    ]
    async with open_desk(Engine()) as desk:
        await edited(desk, both, clear())

        assert cleared_in(desk.engine.prompt) == [0, 1]
        results = desk.engine.prompt[2]["content"]
    assert [block["tool_use_id"] for block in results] == [f"toolu_{at}" for at in range(4)]


def thoughtful(turns: int) -> list[Fields]:
    told: list[Fields] = []
    for number in range(turns):
        thought = {"type": "thinking", "thinking": f"Thought {number}. " * 30, "signature": "sig"}
        hidden = {"type": "redacted_thinking", "data": "xyz"}
        answer = {"type": "text", "text": f"Answer {number}."}
        told.append({"role": "user", "content": f"Question {number}?"})
        told.append({"role": "assistant", "content": [thought, hidden, answer]})
    return [*told, {"role": "user", "content": "And now?"}]


def thinking_in(prompt: list[Fields]) -> list[int]:
    """The turns that have thinking, each in whole blocks."""
    answers = [it["content"] for it in prompt if it["role"] == "assistant"]
    whole = [it["content"] for it in thoughtful(len(answers)) if it["role"] == "assistant"]
    assert all(it in (full, full[2:]) for it, full in zip(answers, whole, strict=True))
    return [turn for turn, content in enumerate(answers) if len(content) == 3]


@ENGINES
@STREAMS
async def test_older_thinking_is_removed_in_whole_blocks(*, kind: Kind, streams: bool) -> None:
    keep = {"type": "thinking_turns", "value": 2}
    edit = {"type": "clear_thinking_20251015", "keep": keep}
    async with open_desk(Engine(kind)) as desk:
        message = await edited(desk, thoughtful(5), edit, streams=streams)

        assert thinking_in(desk.engine.prompt) == [3, 4]
    (applied,) = message.context_management.applied_edits
    assert applied.type == "clear_thinking_20251015"
    assert applied.cleared_thinking_turns == 3
    assert applied.cleared_input_tokens > 100


async def test_by_default_the_last_turn_keeps_its_thinking() -> None:
    async with open_desk(Engine()) as desk:
        await edited(desk, thoughtful(4), {"type": "clear_thinking_20251015"})

        assert thinking_in(desk.engine.prompt) == [3]


async def test_both_edits_are_applied_and_reported_in_order() -> None:
    history = [*thoughtful(3), *run(6)[1:]]
    async with open_desk(Engine()) as desk:
        message = await edited(desk, history, {"type": "clear_thinking_20251015"}, clear())

        assert cleared_in(desk.engine.prompt) == [0, 1, 2, 3]
    kinds = [edit.type for edit in message.context_management.applied_edits]
    assert kinds == ["clear_thinking_20251015", "clear_tool_uses_20250919"]


async def test_a_run_far_over_the_window_goes_on_with_its_results_cleared() -> None:
    """Clearing by the client's wish and compaction by the proxy work on one prompt."""
    async with open_desk(Engine(window=8_192)) as desk:
        for steps in range(4, 60, 4):
            message = await edited(desk, run(steps), clear(trigger=tokens(4_000)))
            assert message.content[0].text == "Well."

        assert desk.engine.refused == []
