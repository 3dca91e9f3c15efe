"""`POST /v1/messages/count_tokens` tells the size of a request as the upstream would get it."""

import json
from typing import Any

import pytest

from tests.support.live import RawAnswer
from tests.support.meeting import Meeting
from tests.support.wire_model import Fields, WireModel, history_of, post, wire_meeting

pytestmark = pytest.mark.anyio

TARGET = "/v1/messages/count_tokens?beta=true"
LONG = history_of("messages", 14)
SHORT = history_of("messages", 1)


async def counted(met: Meeting, fields: Fields, *headers: str) -> RawAnswer:
    await met.client.send(post(TARGET, json.dumps(fields).encode(), *headers))
    return await met.client.answer()


def document(answer: RawAnswer) -> dict[str, Any]:
    assert answer.status == 200
    return dict(json.loads(answer.body))


async def test_the_upstream_counts_a_request_that_is_sent_as_it_is() -> None:
    brain = WireModel(counts_tokens=True)
    async with wire_meeting(brain) as met:
        answer = await counted(met, SHORT)

    assert document(answer)["own"] is True
    assert brain.bodies == [("/v1/messages/count_tokens", SHORT)]


async def test_where_the_upstream_cannot_count_the_proxy_does() -> None:
    brain = WireModel()
    async with wire_meeting(brain) as met:
        answer = await counted(met, SHORT)

    told = document(answer)
    assert told["input_tokens"] == told["context_management"]["original_input_tokens"] > 50
    assert answer.headers["x-chat-proxy-compaction"] == "none"
    assert answer.headers["x-chat-proxy-tokens-after"] == str(told["input_tokens"])


@pytest.mark.parametrize("counts", [True, False])
async def test_a_request_that_would_be_compacted_is_counted_after_it(*, counts: bool) -> None:
    brain = WireModel(counts_tokens=counts)
    async with wire_meeting(brain) as met:
        answer = await counted(met, LONG)

    told = document(answer)
    assert told["input_tokens"] < 4_096 < told["context_management"]["original_input_tokens"]
    assert brain.bodies == []


async def test_counting_stores_and_buys_nothing() -> None:
    brain = WireModel()
    async with wire_meeting(brain) as met:
        for _ in range(3):
            await counted(met, LONG)

        assert met.figure('chat_proxy_summaries_total{result="written"}') == 0
        assert met.figure("chat_proxy_saved_tokens_total") == 0

    assert brain.summaries == []


async def test_while_a_summary_is_written_the_count_is_that_of_the_whole_request() -> None:
    """Over the trigger the request still fits, and nobody waits: it is sent as it is."""
    waiting = history_of("messages", 6)
    async with wire_meeting(WireModel()) as met:
        told = document(await counted(met, waiting))
        await met.client.send(post("/v1/messages", json.dumps(waiting).encode()))
        sent = await met.client.answer()

    assert sent.headers["x-chat-proxy-compaction"] == "none"
    assert told["input_tokens"] == told["context_management"]["original_input_tokens"]
    assert str(told["input_tokens"]) == sent.headers["x-chat-proxy-tokens-after"]


async def test_a_mistake_in_counting_leaves_it_to_the_upstream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("chat_proxy.routes.count_tokens.prompt_size", fail)
    async with wire_meeting(WireModel(counts_tokens=True)) as met:
        answer = await counted(met, LONG)

    assert document(answer)["own"] is True


async def test_the_count_is_near_what_the_message_then_costs() -> None:
    brain = WireModel()
    async with wire_meeting(brain) as met:
        await met.client.send(post("/v1/messages", json.dumps(LONG).encode()))
        sent = await met.client.answer()
        told = document(await counted(met, LONG))["input_tokens"]

    charged = json.loads(sent.body)["usage"]["input_tokens"]
    assert abs(told - charged) < charged * 0.15


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_without_compaction_the_whole_request_is_counted(mode: str) -> None:
    async with wire_meeting(WireModel()) as met:
        answer = await counted(met, LONG, f"x-chat-proxy-mode: {mode}")

    told = document(answer)
    assert told["input_tokens"] == told["context_management"]["original_input_tokens"] > 4_096


async def test_what_cannot_be_counted_is_refused_in_the_words_of_the_api() -> None:
    async with wire_meeting(WireModel()) as met:
        answer = await counted(met, {"model": "fake", "messages": "Hi"})

    assert answer.status == 400
    assert json.loads(answer.body) == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages must be a list of objects.",
        },
    }
