"""Answers say what was done for a contract, whole and as events that the SDK's types parse."""

import json
from typing import Any

import pytest
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from pydantic import TypeAdapter

from chat_proxy.wires.answers import named_event
from chat_proxy.wires.contracts.contract import (
    NOTHING_DONE,
    ContractOutcome,
)
from chat_proxy.wires.messages.contract_answers import (
    ContractEdit,
    paused_events,
    paused_message,
)

Fields = dict[str, Any]
CLEARED = ContractOutcome(
    cleared_results=3,
    cleared_result_tokens=900,
    cleared_thinking_turns=2,
    cleared_thinking_tokens=40,
)
COMPACTED = ContractOutcome("sealed", "So far.", 5_000, 300)
APPLIED = [
    {"type": "clear_thinking_20251015", "cleared_thinking_turns": 2, "cleared_input_tokens": 40},
    {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3, "cleared_input_tokens": 900},
]
MESSAGE: Fields = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "fake",
    "content": [{"type": "text", "text": "Well."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 20, "output_tokens": 6, "cache_read_input_tokens": 5},
}
EVENT = TypeAdapter[BetaRawMessageStreamEvent](BetaRawMessageStreamEvent)


def stream() -> list[bytes]:
    begun = {**MESSAGE, "content": [], "stop_reason": None}
    documents: list[Fields] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Well."},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 6},
        },
        {"type": "message_stop"},
    ]
    return [b": hello\n\n", *map(named_event, documents)]


def documents_of(stream: bytes) -> list[Fields]:
    lines = [line for line in stream.splitlines() if line.startswith(b"data: ")]
    return [json.loads(line[6:]) for line in lines]


def accumulated(stream: bytes) -> Any:
    """The message that the events make; every one of them is of the SDK's types."""
    message: Fields = {}
    for document in documents_of(stream):
        kind = document["type"]
        if kind == "ping":
            continue
        EVENT.validate_python(document)
        if kind == "message_start":
            message = document["message"]
        elif kind == "content_block_start":
            assert document["index"] == len(message["content"])
            message["content"].append(document["content_block"])
        elif kind == "content_block_delta":
            delta = {key: it for key, it in document["delta"].items() if key != "type"}
            message["content"][document["index"]] |= delta
        elif kind == "message_delta":
            message |= document["delta"] | {"context_management": document["context_management"]}
            message["usage"] |= document["usage"]
    return BetaMessage.model_validate(message)


def fed(edit: ContractEdit, stream: bytes, size: int) -> bytes:
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    return b"".join(map(edit.feed, pieces)) + edit.end()


def test_a_message_names_the_edits_that_were_applied() -> None:
    body = ContractEdit(CLEARED).whole(json.dumps(MESSAGE).encode())

    message = json.loads(body)
    assert message == {**MESSAGE, "context_management": {"applied_edits": APPLIED}}
    BetaMessage.model_validate(message)


def test_a_message_without_any_edit_has_an_empty_list() -> None:
    body = ContractEdit(NOTHING_DONE).whole(json.dumps(MESSAGE).encode())

    assert json.loads(body)["context_management"] == {"applied_edits": []}


def test_a_compaction_is_the_first_block_and_an_iteration_of_its_own() -> None:
    body = ContractEdit(COMPACTED).whole(json.dumps(MESSAGE).encode())

    message: Any = BetaMessage.model_validate_json(body)
    first, second = message.content
    assert first.type == "compaction"
    assert (first.content, first.encrypted_content) == ("So far.", "sealed")
    assert first.signature
    assert second.type == "text"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (20, 6)
    iterations = [
        (it.type, it.input_tokens, it.output_tokens) for it in message.usage.iterations or ()
    ]
    assert iterations == [("compaction", 5_000, 300), ("message", 20, 6)]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"type": "error"}', b'{"content": []}'])
def test_what_is_no_message_passes_unchanged(body: bytes) -> None:
    assert ContractEdit(COMPACTED).whole(body) == body


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_a_stream_has_the_compaction_first_and_the_edits_last(size: int) -> None:
    outcome = ContractOutcome("sealed", "So far.", 5_000, 300, 3, 900, 2, 40)

    changed = fed(ContractEdit(outcome), b"".join(stream()), size)

    assert changed.startswith(b": hello\n\n")
    message = accumulated(changed)
    assert [block.type for block in message.content] == ["compaction", "text"]
    assert message.content[0].content == "So far."
    assert message.content[0].encrypted_content == "sealed"
    assert message.content[0].signature
    assert message.content[1].text == "Well."
    assert message.stop_reason == "end_turn"
    assert [edit.to_dict() for edit in message.context_management.applied_edits] == APPLIED
    iterations = [(it.type, it.input_tokens, it.output_tokens) for it in message.usage.iterations]
    assert iterations == [("compaction", 5_000, 300), ("message", 20, 6)]
    assert message.usage.iterations[1].cache_read_input_tokens == 5
    indexes = [it["index"] for it in documents_of(changed) if "index" in it]
    assert indexes == [0, 0, 0, 1, 1, 1]


def test_an_older_sdk_finds_all_of_the_block_in_its_first_event() -> None:
    changed = fed(ContractEdit(COMPACTED), b"".join(stream()), 100)

    (started,) = [
        it["content_block"]
        for it in documents_of(changed)
        if it["type"] == "content_block_start" and it["index"] == 0
    ]
    assert started["encrypted_content"] == "sealed"
    assert started["signature"]
    assert started["content"] is None


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_only_the_end_of_a_stream_changes_if_nothing_was_compacted(size: int) -> None:
    given = stream()

    changed = fed(ContractEdit(CLEARED), b"".join(given), size)

    assert changed.startswith(b"".join(given[:-2]))
    assert changed.endswith(given[-1])
    ended = documents_of(changed)[-2]
    assert ended["context_management"] == {"applied_edits": APPLIED}
    assert ended["usage"] == {"output_tokens": 6}


def test_a_text_that_quotes_an_event_is_no_event() -> None:
    quoted = {"type": "text_delta", "text": '{"type": "message_delta", "usage": {}}'}
    event = named_event({"type": "content_block_delta", "index": 0, "delta": quoted})

    assert ContractEdit(CLEARED).feed(event) == event


def test_a_stream_that_breaks_off_keeps_what_came() -> None:
    broken = b"".join(stream()[:3]) + b'event: content_block_delta\ndata: {"ty'

    changed = fed(ContractEdit(CLEARED), broken, 10)

    assert changed == broken


def test_a_message_that_is_a_compaction_alone_parses_whole_and_as_events() -> None:
    message = paused_message(COMPACTED, "fake", "r1")

    whole: Any = BetaMessage.model_validate(message)
    streamed = accumulated(b"".join(map(named_event, paused_events(message))))

    for found in (whole, streamed):
        assert [block.type for block in found.content] == ["compaction"]
        assert found.content[0].content == "So far."
        assert found.content[0].encrypted_content == "sealed"
        assert found.content[0].signature
        assert found.stop_reason == "compaction"
        assert found.usage.input_tokens == found.usage.output_tokens == 0
        assert [it.type for it in found.usage.iterations] == ["compaction"]
        assert found.context_management.applied_edits == []
