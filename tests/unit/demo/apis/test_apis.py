"""The demo model by Responses and by Messages."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from chat_proxy.demo.apis.messages import arguments_of
from chat_proxy.demo.model.model import DemoModel
from tests.unit.demo.model.test_model import talking_to

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RESPONSES_TOOL = {"type": "function", "name": "look", "parameters": SCHEMA}
MESSAGES_TOOL = {"name": "look", "input_schema": SCHEMA}
ASK = "Call look on “Rome” now."


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with talking_to(DemoModel(window=1000, words_per_second=0)) as client:
        yield client


@pytest.fixture(scope="module")
def sdk(http: httpx.Client) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="any", max_retries=0) as client:
        yield client


def sent(http: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request of Messages."""
    response = http.post("/v1/messages", json={"model": "demo", "max_tokens": 200, **body})
    assert response.status_code == 200, response.text
    return dict(response.json())


def events_of(http: httpx.Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a stream of Messages; each is named as its type."""
    request = {"model": "demo", "max_tokens": 200, "stream": True, **body}
    text = http.post("/v1/messages", json=request).text
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    assert [f"event: {it['type']}" for it in events] == [name for name, _ in blocks]
    return events


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def test_responses_answers_an_input_with_its_instructions(sdk: openai.OpenAI) -> None:
    answer = sdk.responses.create(model="demo", instructions="Be brief.", input="Hello there")

    assert "2 messages (1 system, 1 user)" in answer.output_text
    assert answer.output_text.endswith("You said: Hello there")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens


def test_responses_streams_the_words_of_the_same_answer(sdk: openai.OpenAI) -> None:
    with sdk.responses.stream(model="demo", input="Hello there") as stream:
        said = [it.delta for it in stream if it.type == "response.output_text.delta"]
        answer = stream.get_final_response()

    assert len(said) > 10
    assert "".join(said) == answer.output_text
    assert answer.status == "completed"


def test_responses_calls_a_function_and_reads_its_result(sdk: openai.OpenAI) -> None:
    tools: Any = [RESPONSES_TOOL, {"type": "web_search"}]
    with sdk.responses.stream(model="demo", input=ASK, tools=tools) as stream:
        pieces = [it.delta for it in stream if it.type == "response.function_call_arguments.delta"]
        call: Any = stream.get_final_response().output[0]
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    history: Any = [{"role": "user", "content": ASK}, call.model_dump(), result]
    answer = sdk.responses.create(model="demo", input=history)

    assert (call.type, call.name) == ("function_call", "look")
    assert json.loads("".join(pieces)) == json.loads(call.arguments) == {"city": "Rome"}
    assert "The result of look is: sunny" in answer.output_text


def test_responses_that_are_cut_off_are_incomplete(sdk: openai.OpenAI) -> None:
    with sdk.responses.stream(model="demo", input="Hello", max_output_tokens=3) as stream:
        last = list(stream)[-1]

    assert last.type == "response.incomplete"
    assert last.response.incomplete_details is not None
    assert last.response.incomplete_details.reason == "max_output_tokens"


def test_a_named_function_of_responses_is_called(sdk: openai.OpenAI) -> None:
    tools: Any = [RESPONSES_TOOL]
    choice: Any = {"type": "function", "name": "look"}
    answer = sdk.responses.create(model="demo", input="Hello", tools=tools, tool_choice=choice)

    assert [it.type for it in answer.output] == ["function_call"]


def test_messages_answers_with_its_system_text(http: httpx.Client) -> None:
    answer = sent(http, {"system": "Be brief.", "messages": user("Hello there")})

    [block] = answer["content"]
    assert "2 messages (1 system, 1 user)" in block["text"]
    assert answer["stop_reason"] == "end_turn"
    assert answer["usage"]["input_tokens"] > 0


def test_messages_streams_the_words_of_the_same_answer(http: httpx.Client) -> None:
    whole = sent(http, {"messages": user("Hello there")})
    events = events_of(http, {"messages": user("Hello there")})

    deltas = [it["delta"]["text"] for it in events if it["type"] == "content_block_delta"]
    assert "".join(deltas) == whole["content"][0]["text"]
    kinds = [it["type"] for it in events if it["type"] != "content_block_delta"]
    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[-2]["usage"] == {"output_tokens": whole["usage"]["output_tokens"]}


def test_messages_calls_a_tool_and_reads_its_result(http: httpx.Client) -> None:
    tools = [MESSAGES_TOOL, {"type": "web_search_20250305", "name": "web_search"}]
    answer = sent(http, {"messages": user(ASK), "tools": tools})
    events = events_of(http, {"messages": user(ASK), "tools": tools})
    [call] = answer["content"]
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "sunny"}
    history = [
        *user(ASK),
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    after = sent(http, {"messages": history, "tools": tools})

    assert answer["stop_reason"] == "tool_use"
    assert (call["name"], call["input"]) == ("look", {"city": "Rome"})
    pieces = [it["delta"]["partial_json"] for it in events if it["type"] == "content_block_delta"]
    assert json.loads("".join(pieces)) == {"city": "Rome"}
    assert "The result of look is: sunny" in after["content"][0]["text"]


def test_messages_that_are_cut_off_say_so(http: httpx.Client) -> None:
    answer = sent(http, {"messages": user("Hello"), "max_tokens": 3})

    assert answer["stop_reason"] == "max_tokens"
    assert answer["usage"]["output_tokens"] == 3


def test_messages_makes_one_call_at_a_time_if_it_is_asked_to(http: httpx.Client) -> None:
    tools = [MESSAGES_TOOL, {**MESSAGES_TOOL, "name": "listen"}]
    body = {"messages": user("Call look and call listen."), "tools": tools}
    choice = {"type": "auto", "disable_parallel_tool_use": True}

    assert len(sent(http, body)["content"]) == 2
    assert len(sent(http, {**body, "tool_choice": choice})["content"]) == 1


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "look"}])
def test_a_call_that_messages_requires_is_made(http: httpx.Client, choice: Any) -> None:
    body = {"messages": user("Hello"), "tools": [MESSAGES_TOOL], "tool_choice": choice}

    assert sent(http, body)["stop_reason"] == "tool_use"


def test_a_prompt_that_does_not_fit_is_refused_in_the_form_of_each_api(http: httpx.Client) -> None:
    long = user("word " * 2_000)
    by_responses = http.post("/v1/responses", json={"model": "demo", "input": long})
    by_messages = http.post("/v1/messages", json={"model": "demo", "messages": long})

    assert by_responses.status_code == by_messages.status_code == 400
    said = by_responses.json()["error"]["message"]
    assert "maximum context length is 1000 tokens" in said
    error = {"type": "invalid_request_error", "message": said}
    assert by_messages.json() == {"type": "error", "error": error}


def test_an_unknown_model_of_messages_is_not_found(http: httpx.Client) -> None:
    response = http.post("/v1/messages", json={"model": "other", "messages": user("Hello")})

    assert response.status_code == 404
    assert response.json()["error"]["type"] == "not_found_error"


def test_a_body_without_a_conversation_is_refused(http: httpx.Client) -> None:
    assert http.post("/v1/responses", json={"model": "demo"}).status_code == 400
    assert http.post("/v1/messages", json={"model": "demo"}).status_code == 400


def test_arguments_that_were_cut_off_are_left_out() -> None:
    assert arguments_of('{"city": "Ro') == {}
