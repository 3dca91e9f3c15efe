"""The openai SDK drives every contract of Responses before engines that know none of them."""

import json
from typing import Any

import openai
import pytest
from openai.types.responses import (
    CompactedResponse,
    Response,
    ResponseCompactionItem,
    ResponseStreamEvent,
    ResponseUsage,
)
from pydantic import TypeAdapter

from chat_proxy.wires.responses.wire import Responses
from tests.support.wires.responses_engines import (
    NO_ITEM,
    STRICT,
    TRIGGER,
    dumped,
    management,
    open_desk,
    talk,
)

pytestmark = pytest.mark.anyio
KINDS = pytest.mark.parametrize("kind", ["vllm", "llama.cpp", "strict"])
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
NEXT: Any = {"role": "user", "content": "And then?"}


async def streamed(sdk: openai.AsyncOpenAI, **options: Any) -> list[Any]:
    """All events of a stream, checked by the SDK's own types."""
    events = [event async for event in await sdk.responses.create(stream=True, **options)]
    for event in events:
        EVENT.validate_python(event.model_dump())
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return events


@KINDS
async def test_a_whole_answer_has_the_compaction_item_first(kind: str) -> None:
    async with open_desk(kind) as desk:
        raw = await desk.sdk().responses.with_raw_response.create(
            model="fake", input=talk(), context_management=management()
        )
        answer = raw.parse()

        Response.model_validate(answer.model_dump())
        assert [item.type for item in answer.output] == ["compaction", "message"]
        assert answer.output_text == "Well."
        assert raw.headers["x-chat-proxy-compaction"] == "built"
        assert "context_management" not in desk.engine.last
        assert len(desk.engine.last["input"]) < len(talk())
        assert len(desk.engine.summaries) == 1
        assert answer.usage is not None
        assert answer.usage.input_tokens < 2_000


@KINDS
async def test_a_stream_has_the_compaction_item_first(kind: str) -> None:
    async with open_desk(kind) as desk:
        events = await streamed(
            desk.sdk(), model="fake", input=talk(), context_management=management()
        )

        kinds = [event.type for event in events]
        assert kinds[2:5] == [
            "response.output_item.added",
            "response.compaction.compacting",
            "response.output_item.done",
        ]
        assert {event.output_index for event in events[2:5]} == {0}
        assert {event.output_index for event in events[5:-1]} == {1}
        final = events[-1].response
        assert [item.type for item in final.output] == ["compaction", "message"]
        assert final.output[0] == events[4].item


@KINDS
@pytest.mark.parametrize("streams", [False, True])
async def test_a_trigger_is_answered_by_one_item_alone(kind: str, streams: bool) -> None:
    async with open_desk(kind) as desk:
        sdk = desk.sdk()
        options: Any = {"model": "fake", "input": [*talk(), TRIGGER]}
        if streams:
            events = await streamed(sdk, **options)
            answer = events[-1].response
            kinds = [event.type for event in events]
            assert kinds.count("response.output_item.done") == 1
            assert "response.compaction.compacting" in kinds
        else:
            answer = await sdk.responses.create(**options)
        Response.model_validate(answer.model_dump())

        assert [item.type for item in answer.output] == ["compaction"]
        assert answer.usage.input_tokens > 5_000 > answer.usage.output_tokens > 0
        assert desk.engine.bodies == []
        assert len(desk.engine.summaries) == 1
        await sdk.responses.create(model="fake", input=[*dumped(answer.output), NEXT])
        assert b"Question 0" in desk.engine.bodies[-1]
        assert len(desk.engine.bodies[-1]) < len(json.dumps(talk())) // 2


@KINDS
async def test_the_compact_endpoint_returns_user_messages_and_one_item(kind: str) -> None:
    async with open_desk(kind) as desk:
        sdk = desk.sdk()
        compacted = await sdk.responses.compact(
            model="fake", input=talk(), instructions="Be brief."
        )

        # The SDK's type has no messages of the user, which the API says are there.
        assert isinstance(compacted, CompactedResponse)
        ResponseCompactionItem.model_validate(compacted.output[-1].model_dump())
        ResponseUsage.model_validate(compacted.usage.model_dump())
        assert compacted.object == "response.compaction"
        assert [item.type for item in compacted.output] == ["message"] * 13 + ["compaction"]
        assert compacted.usage.total_tokens > 5_000
        await sdk.responses.create(model="fake", input=[*dumped(compacted.output), NEXT])
        assert desk.engine.last["input"][-1] == NEXT
        assert len(desk.engine.bodies[-1]) < len(json.dumps(talk())) // 2


async def test_a_text_can_be_compacted_too() -> None:
    async with open_desk() as desk:
        compacted = await desk.sdk().responses.compact(model="fake", input="Hello there.")

        await desk.sdk().responses.create(model="fake", input=[*dumped(compacted.output), NEXT])

        said = [item["content"] for item in desk.engine.last["input"]]
        assert said == ["Hello there.", "And then?"]


@pytest.mark.parametrize("threshold", [1, 300, 1_000])
async def test_small_thresholds_count_as_they_are(threshold: int) -> None:
    async with open_desk() as desk:
        answer = await desk.sdk().responses.create(
            model="fake", input=talk(6), context_management=management(threshold)
        )

        assert answer.output[0].type == "compaction"


@pytest.mark.parametrize("threshold", [None, 12_000, 900_000])
async def test_below_the_threshold_nothing_is_compacted(threshold: int | None) -> None:
    async with open_desk() as desk:
        answer = await desk.sdk().responses.create(
            model="fake", input=talk(6), context_management=management(threshold)
        )

        assert [item.type for item in answer.output] == ["message"]
        assert desk.engine.last["input"] == talk(6)


@pytest.mark.parametrize("streams", [False, True])
async def test_without_a_summary_the_conversation_goes_on_all_the_same(streams: bool) -> None:
    async with open_desk() as desk:
        desk.engine.writes_summaries = False
        sdk = desk.sdk()
        options: Any = {"model": "fake", "input": [*talk(), TRIGGER]}
        if streams:
            answer = (await streamed(sdk, **options))[-1].response
        else:
            answer = await sdk.responses.create(**options)

        assert [item.type for item in answer.output] == ["compaction"]
        await sdk.responses.create(model="fake", input=[*dumped(answer.output), NEXT])
        assert b"Question 0" in desk.engine.bodies[-1]
        assert len(desk.engine.bodies[-1]) < len(json.dumps(talk())) // 2


async def test_a_mistake_of_the_proxy_seals_the_conversation_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr("chat_proxy.proxy.contracts.answer.compact_now", fail)
    async with open_desk() as desk:
        sdk = desk.sdk()
        raw = await sdk.responses.with_raw_response.create(model="fake", input=[*talk(2), TRIGGER])
        assert raw.headers["x-chat-proxy-compaction"] == "failed-open"

        await sdk.responses.create(model="fake", input=[*dumped(raw.parse().output), NEXT])

        assert desk.engine.last["input"] == [*talk(2), NEXT]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"context_management": "compaction"}, "context_management"),
        ({"context_management": [{"type": "truncation"}]}, "context_management"),
        (
            {"context_management": [{"type": "compaction", "compact_threshold": 0}]},
            "context_management",
        ),
        ({"input": [TRIGGER, NEXT]}, "input"),
        ({"input": [NEXT, TRIGGER], "previous_response_id": "resp_1"}, None),
    ],
)
async def test_wrong_parameters_are_refused(fields: Any, param: str | None) -> None:
    async with open_desk() as desk:
        with pytest.raises(openai.BadRequestError) as refused:
            await desk.sdk().responses.create(model="fake", input=[NEXT], extra_body=fields)

        assert refused.value.param == param
        assert desk.engine.bodies == []


async def test_an_upstream_that_keeps_contracts_gets_them_untouched() -> None:
    async with open_desk(contracts="upstream") as desk:
        raw = await desk.sdk().responses.with_raw_response.create(
            model="fake", input=[*talk(), TRIGGER], context_management=management(1)
        )

        assert raw.headers["x-chat-proxy-compaction"] == "off"
        assert desk.engine.last["context_management"] == management(1)
        assert desk.engine.last["input"][-1] == TRIGGER
        assert desk.engine.summaries == []


async def test_an_upstream_s_own_refusal_passes_where_the_operator_chose_it() -> None:
    async with open_desk("strict", contracts="upstream") as desk:
        with pytest.raises(openai.BadRequestError, match="Extra inputs"):
            await desk.sdk().responses.create(
                model="fake", input=talk(2), context_management=management()
            )


@pytest.mark.parametrize(("kind", "refusal"), [("strict", STRICT), ("llama.cpp", NO_ITEM)])
async def test_a_hosted_api_that_refuses_is_not_asked_again(
    kind: str, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Responses, "keeping_hosts", ("127.0.0.1",))
    async with open_desk(kind) as desk:
        for asked in (1, 1):
            answer = await desk.sdk().responses.create(
                model="fake", input=[*talk(), TRIGGER], context_management=management()
            )
            assert [item.type for item in answer.output] == ["compaction"]
            assert len(desk.engine.bodies) == asked

    assert desk.engine.refusal(json.loads(desk.engine.bodies[0])) == refusal


async def test_a_hosted_api_compacts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Responses, "keeping_hosts", ("127.0.0.1",))
    async with open_desk(budget={"context_window": 4_000}) as desk:
        raw = await desk.sdk().responses.with_raw_response.create(
            model="fake", input=talk(), context_management=management()
        )

        assert raw.headers["x-chat-proxy-compaction"] == "off"
        assert desk.engine.last["input"] == talk()
        assert desk.engine.summaries == []


async def test_modes_that_change_nothing_leave_contracts_alone() -> None:
    async with open_desk(mode="observe") as desk:
        await desk.sdk().responses.create(
            model="fake", input=[*talk(), TRIGGER], context_management=management()
        )

        assert desk.engine.last["context_management"] == management()
        assert desk.engine.last["input"][-1] == TRIGGER
