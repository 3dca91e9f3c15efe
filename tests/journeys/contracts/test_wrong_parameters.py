"""Parameters about context with wrong values are refused; those beside them stay as they are."""

import json
from typing import Any

import httpx
import pytest

from tests.support.wires import messages_engines, responses_engines
from tests.support.wires.contract_requests import BETAS, compact, post
from tests.support.wires.messages_engines import Fields, chat, run
from tests.support.wires.responses_engines import TRIGGER, management, talk

pytestmark = pytest.mark.anyio
NEXT: Fields = {"role": "user", "content": "And then?"}
WRONG: list[Any] = [[], 5, True, 1.5, "x", [None], ["x"], [[]], [{}], [{"type": None}]]
NO_EDIT: list[Any] = [5, "x", {}, [1]]
NO_TEXT: list[Any] = [5, [], {}, True]
NO_SEAL: list[Any] = [None, 5, [], "", "x"]
NO_KEEP: list[Any] = [5, "x", []]
NO_LIST: list[Any] = [5, "x", {}, [None], [{}]]
NO_NUMBER: list[Any] = [-1, 1.0, 10**30, True, "5", [], {}]


def wrong_messages() -> list[Fields]:
    """Parameters of Messages that have a wrong shape or a wrong number."""
    kinds = ("clear_tool_uses_20250919", "compact_20260112")
    tokens = [{"type": "input_tokens", "value": it} for it in NO_NUMBER]
    edits = [{"type": kind, "trigger": it} for kind in kinds for it in [*tokens, *NO_EDIT]]
    edits += [{"type": kinds[0], "keep": {"type": "tool_uses", "value": it}} for it in NO_NUMBER]
    edits += [{"type": kinds[0], "exclude_tools": it} for it in (*NO_EDIT, True)]
    edits += [{"type": kinds[0], "clear_tool_inputs": it} for it in NO_EDIT]
    edits += [{"type": kinds[1], "instructions": it} for it in NO_TEXT]
    edits += [{"type": kinds[1], "pause_after_compaction": it} for it in NO_KEEP]
    turns = [{"type": "thinking_turns", "value": it} for it in [0, *NO_NUMBER]]
    edits += [{"type": "clear_thinking_20251015", "keep": it} for it in [*turns, *NO_KEEP]]
    found: list[Fields] = [{"context_management": {"edits": [it]}} for it in edits]
    found += [{"context_management": it} for it in WRONG]
    found += [{"context_management": {"edits": it}} for it in NO_LIST]
    found += [{"compaction": it} for it in [*WRONG, {}, {"type": "x"}]]
    both = {"compaction": {"type": "summarize"}, "context_management": compact()}
    return [*found, both, {"context_management": {"edits": compact()["edits"] * 2}}]


async def test_wrong_parameters_of_messages_are_refused_as_the_api_does() -> None:
    async with messages_engines.open_desk(messages_engines.Engine()) as desk:
        assert desk.proxy is not None
        for fields in wrong_messages():
            body = {"model": "fake", "max_tokens": 9, "messages": run(3), **fields}
            answer = await post(desk.proxy.url, "/v1/messages", body)

            assert answer.status_code == 400, fields
            assert answer.json()["type"] == "error"
            assert answer.json()["error"]["type"] == "invalid_request_error"
            assert answer.json()["error"]["message"].startswith(("context_manag", "compaction"))
        assert desk.engine.chats == []


def wrong_responses() -> list[Fields]:
    """Parameters and items of Responses that have a wrong shape or a wrong number."""
    thresholds = [[{"type": "compaction", "compact_threshold": it}] for it in [0, *NO_NUMBER]]
    shapes = [it for it in [*WRONG, {}, [{"type": "x"}]] if it != []]
    items = [{"type": "compaction", "encrypted_content": it} for it in NO_SEAL]
    inputs: list[Any] = [[item, NEXT] for item in items]
    inputs += [[TRIGGER, NEXT], [NEXT, TRIGGER, TRIGGER], ["x", TRIGGER]]
    inputs += [[{"type": "item_reference", "id": "x"}, TRIGGER]]
    found: list[Fields] = [{"context_management": it} for it in [*shapes, *thresholds]]
    return [*found, *({"input": it} for it in inputs)]


async def test_wrong_parameters_of_responses_are_refused_as_the_api_does() -> None:
    async with responses_engines.open_desk() as desk:
        for fields in wrong_responses():
            answer = await post(desk.url, "/v1/responses", {"model": "fake", "input": [], **fields})

            assert answer.status_code == 400, fields
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
            assert answer.json()["error"]["type"] == "invalid_request_error"
        assert desk.engine.bodies == []


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"input": None}, "input"),
        ({"input": 5}, "input"),
        ({"input": ["x"]}, "input"),
        ({"instructions": ["Be brief."]}, "instructions"),
        ({"previous_response_id": "resp_1"}, None),
    ],
)
async def test_the_compact_endpoint_checks_its_input(fields: Fields, param: str | None) -> None:
    async with responses_engines.open_desk() as desk:
        body = {"model": "fake", "input": talk(4), **fields}
        answer = await post(desk.url, "/v1/responses/compact", body)

        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == param
        assert desk.engine.summaries == []


async def test_the_compact_endpoint_keeps_the_limits_of_a_body() -> None:
    async with responses_engines.open_desk(limits={"max_body_bytes": 20_000}) as desk:
        large = await post(desk.url, "/v1/responses/compact", {"model": "m", "input": talk(20)})
        broken = await post(desk.url, "/v1/responses/compact", b'{"model": "fake"')

    assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")
    assert (broken.status_code, broken.json()["error"]["code"]) == (400, "invalid_json")


async def test_parameters_that_are_taken_out_leave_every_digit_of_the_others() -> None:
    schema = {"type": "object", "properties": {"a": {"maximum": 2**64 + 1}}}
    tool = {"type": "function", "name": "f", "parameters": schema}
    body = {"model": "fake", "input": talk(2), "seed": 10**29 + 7, "tools": [tool]}
    async with responses_engines.open_desk() as desk:
        asked = {**body, "context_management": management(900_000)}
        await post(desk.url, "/v1/responses", asked)

        assert desk.engine.last == body


async def test_betas_may_come_in_several_headers() -> None:
    async with messages_engines.open_desk(messages_engines.Engine()) as desk:
        assert desk.proxy is not None
        body = {"model": "fake", "max_tokens": 9, "messages": chat(8)}
        headers = [("anthropic-beta", name) for name in BETAS]
        async with httpx.AsyncClient(base_url=desk.proxy.url, trust_env=False) as http:
            content = json.dumps({**body, "context_management": compact()})
            answer = await http.post("/v1/messages", content=content, headers=headers)

    assert [block["type"] for block in answer.json()["content"]] == ["compaction", "text"]
