"""`observe` changes nothing and tells everything, `off` does nothing; requests only lower it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.conversations import (
    get,
    last_body,
    last_messages,
    listening,
    photo,
    post,
    registry_file,
    sha256,
    trimming,
)
from tests.support.figures import figure_in
from tests.support.live import RawAnswer, chat_body, chat_request
from tests.support.meeting import Meeting
from tests.unit.chat.shapes import Fields, calls, image, result, says, system, text, user

pytestmark = pytest.mark.anyio

LONG = "a long line of output\n" * 5_000
OLD_TURN = [user([text("Look"), photo(1)]), calls("1"), result("1", LONG), says("Nice.")]
NEW_TURN = [user([text("Again"), photo(2)]), calls("2"), result("2", LONG)]
BODY = b" " + chat_body(messages=[system(), *OLD_TURN, *NEW_TURN]) + b"\n"
STAGES = "limit_vision_history,truncate_tool_output"


def asked_mode(mode: str) -> str:
    return f"x-chat-proxy-mode: {mode}"


async def mode_of(met: Meeting, body: bytes, *headers: str) -> str:
    """Send a request that trimming would change; tell by what came of it which mode held."""
    answer = await post(met.client, body, *headers)
    is_same = sha256(last_body(met.model)) == sha256(body)
    match answer.headers["x-chat-proxy-compaction"], is_same:
        case "trimmed", False:
            return "on"
        case "trimmed", True:
            return "observe"
        case "off", True:
            return "off"
    raise AssertionError(answer.headers)


def told(answer: RawAnswer) -> dict[str, str]:
    """What an answer says about compaction."""
    return {
        name: value
        for name, value in answer.headers.items()
        if name.startswith("x-chat-proxy-") and name != "x-chat-proxy-error"
    }


async def explained(met: Meeting, body: bytes) -> dict[str, Any]:
    await met.client.send(chat_request(body).replace(b"/completions", b"/explain", 1))
    answer = await met.client.answer()
    assert answer.status == 200
    return dict(json.loads(answer.body))


# What observe tells


@pytest.mark.parametrize(("setting", "asked"), [("observe", "on"), ("on", "observe")])
async def test_observe_sends_the_clients_bytes_and_tells_what_trimming_would_do(
    setting: str, asked: str
) -> None:
    store = {"url": "memory:", "secret": "the same ids in both"}
    async with trimming(store=store) as met:
        trimmed = await post(met.client, BODY)
    async with trimming(store=store, mode=setting) as met:
        observed = await post(met.client, BODY, asked_mode(asked))

        assert sha256(last_body(met.model)) == sha256(BODY)
    assert told(observed) == told(trimmed)
    assert told(observed)["x-chat-proxy-compaction"] == "trimmed"
    assert told(observed)["x-chat-proxy-stages"] == STAGES


async def test_the_log_tells_what_would_have_been_done() -> None:
    with listening() as heard:
        async with trimming(mode="observe") as met:
            answer = await post(met.client, BODY)

    [line] = heard.lines("request")
    assert (line["mode"], line["compaction"], line["stages"]) == ("observe", "trimmed", STAGES)
    assert (line["messages_before"], line["messages_after"]) == (8, 4)
    assert line["tokens_before"] > line["tokens_after"]
    assert str(line["tokens_after"]) == answer.headers["x-chat-proxy-tokens-after"]


async def test_metrics_tell_what_would_have_been_done() -> None:
    async with trimming(mode="observe") as met:
        answer = await post(met.client, BODY)
        page = (await get(met.client, "/metrics")).body.decode()

    before, after = "x-chat-proxy-tokens-before", "x-chat-proxy-tokens-after"
    saved = int(answer.headers[before]) - int(answer.headers[after])
    lines = page.splitlines()
    outcome = 'chat_proxy_compactions_total{mode="observe",outcome="trimmed",wire="chat"}'
    assert figure_in(page, outcome) == 1
    assert 'chat_proxy_stage_changes_total{stage="limit_vision_history"} 1.0' in lines
    assert 'chat_proxy_stage_changes_total{stage="truncate_tool_output"} 1.0' in lines
    assert figure_in(page, "chat_proxy_saved_tokens_total") == saved


async def test_explain_tells_the_mode_and_what_would_be_done() -> None:
    async with trimming(mode="observe") as met:
        found = await explained(met, BODY)

        assert met.chats == 0
    assert found["mode"] == "observe"
    assert found["compaction"]["outcome"] == "trimmed"
    assert [stage["stage"] for stage in found["compaction"]["stages"]] == STAGES.split(",")


async def test_observe_and_explain_keep_no_text() -> None:
    async with trimming() as met:
        await post(met.client, BODY, asked_mode("observe"))
        await explained(met, BODY)
        unkept = await get(met.client, f"/v1/offload/{'0' * 32}")
        name = met.proxy.services.compaction.offloads.id_of("anonymous", LONG)
        answer = await get(met.client, f"/v1/offload/{name}")
        await post(met.client, BODY)
        kept = await get(met.client, f"/v1/offload/{name}")

    assert (answer.status, answer.body) == (404, unkept.body)
    assert kept.body == LONG.encode()


async def test_observe_counts_pressure_without_deciding_anything() -> None:
    """Over the trigger what would age is told about as well, request after request."""
    steps = [step for at in range(9) for step in (calls(f"{at}"), result(f"{at}", "word " * 900))]
    body = chat_body(messages=[user(), *steps])
    async with trimming(mode="observe", budget={"context_window": 8_000}) as met:
        first = await post(met.client, body)
        second = await post(met.client, body)

        assert sha256(last_body(met.model)) == sha256(body)
    assert told(first) == told(second)
    assert told(first)["x-chat-proxy-stages"] == "age_tool_output"


# Off


@pytest.mark.parametrize(("setting", "asked"), [("off", "on"), ("on", "off")])
async def test_off_does_nothing_and_says_so(setting: str, asked: str) -> None:
    """BUGS 41: off means off."""
    with listening() as heard:
        async with trimming(mode=setting) as met:
            answer = await post(met.client, BODY, asked_mode(asked))
            page = (await get(met.client, "/metrics")).body.decode()

            assert sha256(last_body(met.model)) == sha256(BODY)
    assert told(answer) == {"x-chat-proxy-compaction": "off"}
    outcome = 'chat_proxy_compactions_total{mode="off",outcome="off",wire="chat"}'
    assert figure_in(page, outcome) == 1
    assert "chat_proxy_stage_changes_total{" not in page
    [line] = heard.lines("request")
    assert (line["mode"], line["compaction"]) == ("off", "off")
    assert "forwarder" not in heard.text


# Lowered, never raised

HOLDS = {
    "on": {"off": "off", "observe": "observe", "OBSERVE ": "observe", "on": "on", "raise": "on"},
    "observe": {"on": "observe", "off": "off"},
    "off": {"on": "off", "observe": "off"},
}


@pytest.mark.parametrize("setting", HOLDS)
async def test_a_request_may_lower_the_mode_and_never_raise_it(setting: str) -> None:
    """BUGS 41: the off switch holds, whoever turned it."""
    async with trimming(mode=setting) as met:
        for asked, holds in HOLDS[setting].items():
            assert await mode_of(met, BODY, asked_mode(asked)) == holds
            assert await mode_of(met, BODY) == setting


async def test_the_mode_header_is_not_sent_on() -> None:
    async with trimming() as met:
        await post(met.client, BODY, asked_mode("observe"))

        [chat] = [request for request in met.model.requests if request.method == "POST"]
    assert chat.header("x-chat-proxy-mode") is None


# A model's own settings


def body_for(model: str, *messages: Fields) -> bytes:
    return chat_body(model=model, messages=list(messages))


async def test_a_models_own_mode_holds_for_it_alone(tmp_path: Path) -> None:
    """BUGS 41: a request can lower a model's own mode as well."""
    models = [{"name": mode, "overrides": {"mode": mode}} for mode in ("on", "observe", "off")]
    async with trimming(mode="observe", registry=registry_file(tmp_path, *models)) as met:
        for name in ("on", "observe", "off"):
            body = BODY.replace(b'"fake"', f'"{name}"'.encode())
            assert await mode_of(met, body) == name
            assert await mode_of(met, body, asked_mode("off")) == "off"
            assert (await explained(met, body))["mode"] == name
        assert await mode_of(met, BODY) == "observe"


async def test_a_model_that_is_on_is_trimmed_where_all_else_is_off(tmp_path: Path) -> None:
    registry = registry_file(tmp_path, {"name": "busy", "overrides": {"mode": "on"}})
    async with trimming(mode="off", registry=registry) as met:
        assert await mode_of(met, BODY.replace(b'"fake"', b'"busy"')) == "on"
        assert await mode_of(met, BODY) == "off"


async def test_a_models_own_limit_of_tool_results_holds_for_it_alone(tmp_path: Path) -> None:
    registry = registry_file(tmp_path, {"name": "terse", "overrides": {"tools_max_bytes": 1_000}})
    messages = [user(), calls("1"), result("1", "x" * 5_000)]
    async with trimming(registry=registry) as met:
        await post(met.client, body_for("terse", *messages))
        terse = last_messages(met.model)[2]["content"]
        await post(met.client, body_for("fake", *messages))

        assert last_messages(met.model) == messages
    assert len(terse) <= 1_000


async def test_a_models_own_number_of_turns_holds_for_it_alone(tmp_path: Path) -> None:
    own = {"name": "keeps", "aliases": ["k"], "overrides": {"vision_keep_last_n_turns": 1}}
    turns = [user([image()]), says("one"), user([image()]), says("two"), user([image()])]
    async with trimming(registry=registry_file(tmp_path, own)) as met:
        for name, kept in (("keeps", 3), ("k", 3), ("fake", 1)):
            await post(met.client, body_for(name, *turns))

            assert last_messages(met.model) == turns[-kept:]
