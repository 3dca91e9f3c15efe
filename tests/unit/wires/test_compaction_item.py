"""The compaction item in an answer: first of the output, all else moved up."""

import json
from typing import Any

import pytest

from chat_proxy.wires.answers import Reply, data_events
from chat_proxy.wires.contracts.contract import NOTHING_DONE, ContractOutcome
from chat_proxy.wires.responses.answers import ResponsesAnswers
from chat_proxy.wires.responses.compaction_item import CompactionItemEdit, compaction_document
from chat_proxy.wires.responses.wire import RESPONSES

DONE = ContractOutcome("cpx1_abc", "Summary.", 900, 70)
STREAM = ResponsesAnswers().streamed_reply(Reply("Well.", "m", "up", 1))
ITEM = {"type": "compaction", "id": "cmp_r1", "encrypted_content": "cpx1_abc"}


def edited(stream: bytes, size: int) -> bytes:
    edit = CompactionItemEdit(DONE, "r1")
    pieces = [edit.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    return b"".join([*pieces, edit.end()])


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_a_stream_is_the_same_however_it_is_cut(size: int) -> None:
    assert edited(STREAM, size) == edited(STREAM, 1_000)


def test_the_item_comes_before_the_output_and_the_rest_moves_up() -> None:
    events = data_events(edited(STREAM, 50))

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:5]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.compaction.compacting",
        "response.output_item.done",
    ]
    assert events[4]["item"] == ITEM
    assert {event["output_index"] for event in events[5:-1]} == {1}
    assert events[-1]["response"]["output"][0] == ITEM
    assert len(events[-1]["response"]["output"]) == 2


def test_comments_and_unknown_events_pass() -> None:
    stream = b': ping\n\ndata: {"no": "type"}\n\ndata: [DONE]\n\ndata: {brok'

    out = edited(stream, 9)

    assert out.startswith(b": ping\n\n")
    assert out.endswith(b'data: {"no": "type"}\n\ndata: [DONE]\n\ndata: {brok')


def test_an_error_at_the_beginning_is_still_an_error() -> None:
    error: Any = {"type": "response.failed", "sequence_number": 0, "response": {"error": {}}}
    stream = b"event: response.failed\ndata: " + json.dumps(error).encode() + b"\n\n"

    assert data_events(edited(stream, 10))[-1] == {**error, "sequence_number": 3}


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]"])
def test_what_is_no_document_is_not_changed(body: bytes) -> None:
    assert CompactionItemEdit(DONE, "r1").whole(body) == body


def test_a_whole_answer_without_output_is_not_given_one() -> None:
    assert json.loads(CompactionItemEdit(DONE, "r1").whole(b'{"id":"x"}')) == {"id": "x"}


def test_without_a_compaction_nothing_is_reported() -> None:
    assert RESPONSES.answer_edit(NOTHING_DONE, "r1") is None


def test_a_compacted_conversation_has_the_user_s_messages() -> None:
    given = [
        {"role": "developer", "content": "Rules."},
        {"role": "user", "content": "One"},
        {"type": "function_call", "call_id": "1"},
        {"type": "message", "id": "mine", "role": "user", "content": [{"type": "input_text"}]},
    ]

    document = compaction_document(given, DONE, "r1", 5)

    assert [item.get("id") for item in document["output"]] == ["msg_r1_0", "mine", "cmp_r1"]
    assert document["output"][0]["content"] == [{"type": "input_text", "text": "One"}]
    assert document["usage"]["total_tokens"] == 970
    assert document["created_at"] == 5
