"""Explain, compact and `/compact` know the body of every wire."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import run_command
from tests.support.fake_model import fake_model
from tests.support.live import RawAnswer
from tests.support.meeting import Meeting
from tests.support.wire_model import (
    PATHS,
    Fields,
    WireModel,
    as_item,
    history_of,
    post,
    wire_meeting,
)

pytestmark = pytest.mark.anyio

NAMES = sorted(PATHS)
KEYS = {"chat": "messages", "responses": "input", "messages": "messages"}
STORED = {**history_of("responses", 2), "previous_response_id": "resp_1"}


async def ask(met: Meeting, target: str, fields: Fields) -> RawAnswer:
    await met.client.send(post(target, json.dumps(fields).encode()))
    return await met.client.answer()


def told(answer: RawAnswer) -> dict[str, Any]:
    assert answer.status == 200, answer.body
    return dict(json.loads(answer.body))


@pytest.mark.parametrize("wire", NAMES)
async def test_explain_tells_the_same_of_every_wire(wire: str) -> None:
    async with wire_meeting(WireModel()) as met:
        explained = told(await ask(met, "/v1/chat/explain", history_of(wire, 14)))
        chats = told(await ask(met, "/v1/chat/explain", history_of("chat", 14)))

        assert met.chats == 0

    assert explained["wire"] == wire
    assert [it["role"] for it in explained["messages"]] == [it["role"] for it in chats["messages"]]
    assert explained["tokens"]["total"] == pytest.approx(chats["tokens"]["total"], rel=0.02)
    assert explained["compaction"]["outcome"] == "built"
    assert explained["budget"]["is_over_trigger"] is True


async def test_explain_says_that_a_stored_history_is_left_alone() -> None:
    async with wire_meeting(WireModel(window=400)) as met:
        explained = told(await ask(met, "/v1/chat/explain", STORED))

    assert explained["compaction"]["outcome"] == "off"
    assert {it["after"]["change"] for it in explained["messages"]} == {"kept"}


@pytest.mark.parametrize("wire", NAMES)
async def test_compact_answers_with_the_list_of_its_wire(wire: str) -> None:
    given = history_of(wire, 5)
    brain = WireModel()
    async with wire_meeting(brain) as met:
        asked = {**given, "keep": 2, "instruction": "Mind the answers."}
        done = told(await ask(met, "/v1/chat/compact", asked))

    items = done[KEYS[wire]]
    assert items[-3:] == given[KEYS[wire]][-3:]
    assert done["messages_compacted"] == 8
    assert done["tokens_after"] < done["tokens_before"]
    assert "Question 1" in json.dumps(items[0 if wire != "chat" else 1])
    assert [done.get("system"), done.get("instructions")] == [
        given.get("system"),
        given.get("instructions"),
    ]
    assert "Mind the answers." in json.dumps(brain.summaries[0])


async def test_compact_of_a_text_makes_items_of_it() -> None:
    async with wire_meeting(WireModel()) as met:
        done = told(await ask(met, "/v1/chat/compact", {"model": "fake", "input": "Hi"}))

    assert done["messages_compacted"] == 0
    assert done["note"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (STORED, "A part of the history is stored at the upstream; send it whole."),
        ({**STORED, "keep": 0}, "keep must be a number of turns, at least 1."),
        ({"model": "fake", "input": []}, "input must not be empty."),
        ({"model": "fake", "input": 7}, "input must be a list of objects."),
    ],
)
async def test_compact_refuses_what_it_cannot_see(fields: Fields, message: str) -> None:
    async with wire_meeting(WireModel()) as met:
        answer = await ask(met, "/v1/chat/compact", fields)

    assert answer.status == 400
    assert answer.error["message"] == message


def with_command(wire: str, turns: int, **fields: Any) -> Fields:
    given = history_of(wire, turns)
    command = {"role": "user", "content": "/compact mind the answers"}
    ending = as_item(command) if wire == "responses" else command
    return {**given, KEYS[wire]: [*given[KEYS[wire]][:-1], ending], **fields}


def whole_text(wire: str, document: dict[str, Any]) -> str:
    if wire == "chat":
        return str(document["choices"][0]["message"]["content"])
    if wire == "responses":
        assert (document["object"], document["status"]) == ("response", "completed")
        return str(document["output"][0]["content"][0]["text"])
    assert (document["type"], document["stop_reason"]) == ("message", "end_turn")
    return str(document["content"][0]["text"])


def streamed_text(wire: str, body: bytes) -> str:
    lines = [line.removeprefix(b"data: ") for line in body.splitlines() if line[:5] == b"data:"]
    if wire == "chat":
        assert lines.pop() == b"[DONE]"
        chunks = [json.loads(line)["choices"][0]["delta"] for line in lines]
        return "".join(chunk.get("content", "") for chunk in chunks)
    events = [json.loads(line) for line in lines]
    assert [f"event: {event['type']}".encode() for event in events] == [
        line for line in body.splitlines() if line.startswith(b"event: ")
    ]
    if wire == "responses":
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[-1]["type"] == "response.completed"
        return whole_text(wire, events[-1]["response"])
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    return "".join(event.get("delta", {}).get("text", "") for event in events)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("wire", NAMES)
async def test_the_command_is_answered_in_the_form_of_its_wire(wire: str, *, streams: bool) -> None:
    brain = WireModel()
    async with wire_meeting(brain) as met:
        answer = await ask(met, PATHS[wire], with_command(wire, 5, stream=streams))

    assert answer.status == 200
    text = (
        streamed_text(wire, answer.body) if streams else whole_text(wire, json.loads(answer.body))
    )
    assert text.startswith("Compact Complete!")
    assert "8 messages compacted" in text
    assert answer.headers["x-chat-proxy-compaction"] == "built"
    assert brain.bodies == []
    assert "mind the answers" in json.dumps(brain.summaries[0])


@pytest.mark.parametrize("wire", NAMES)
async def test_a_commanded_summary_is_used_from_then_on(wire: str) -> None:
    brain = WireModel()
    async with wire_meeting(brain) as met:
        first = with_command(wire, 5)
        answer = await ask(met, PATHS[wire], first)
        said = {"role": "assistant", "content": whole_text(wire, json.loads(answer.body))}
        next_one = {"role": "user", "content": "And now?"}
        more = [as_item(it) if wire == "responses" else it for it in (said, next_one)]
        later = await ask(met, PATHS[wire], {**first, KEYS[wire]: [*first[KEYS[wire]], *more]})

    assert later.headers["x-chat-proxy-compaction"] == "reused"
    [(_, sent)] = brain.bodies
    assert "/compact" not in json.dumps(sent)
    assert len(sent[KEYS[wire]]) < len(first[KEYS[wire]]) - 2


async def test_a_command_about_a_stored_history_goes_to_the_upstream() -> None:
    brain = WireModel()
    fields = with_command("responses", 3, previous_response_id="resp_1")
    async with wire_meeting(brain) as met:
        answer = await ask(met, "/v1/responses", fields)

    assert answer.headers["x-chat-proxy-compaction"] == "off"
    assert brain.bodies == [("/v1/responses", fields)]


@pytest.mark.parametrize("wire", NAMES)
async def test_the_command_line_reads_every_wire(wire: str, tmp_path: Path) -> None:
    file = tmp_path / "body.json"
    file.write_text(json.dumps(history_of(wire, 5)))
    async with fake_model(WireModel()) as model:
        run = partial(run_command, UPSTREAM_BASE_URL=model.url, STORE_URL="memory:")
        explained = await run("explain", str(file))
        compacted = await run("compact", str(file))

    assert explained.code == compacted.code == 0
    api = "" if wire == "chat" else f", by the API {wire}"
    assert str(explained.out).splitlines()[0] == f"model   fake{api}"
    printed = json.loads(compacted.out)
    assert printed.keys() == history_of(wire, 5).keys()
    assert printed[KEYS[wire]][-1] == history_of(wire, 5)[KEYS[wire]][-1]
    assert len(printed[KEYS[wire]]) < 6
