import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import openai
import pytest
import uvicorn

from chat_proxy.demo.model.model import DemoModel
from chat_proxy.demo.model.template import IMAGE_TOKENS, OTHER_PART_TOKENS

PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk"
WEATHER: dict[str, object] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["C", "F"]},
    },
    "required": ["city"],
}


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    server = uvicorn.Server(
        uvicorn.Config(DemoModel(words_per_second=0), port=0, log_level="warning")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        yield client
    server.should_exit = True
    thread.join()


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def tool(name: str, schema: object = WEATHER) -> dict[str, object]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def ask(http: httpx.Client, *messages: Mapping[str, object], **fields: object) -> dict[str, Any]:
    body = {"messages": messages, **fields}
    answer = http.post("/v1/chat/completions", json=body).raise_for_status().json()
    choice: dict[str, Any] = answer["choices"][0]
    return choice | {"usage": answer["usage"]}


def text_of(choice: dict[str, Any]) -> str:
    text: str = choice["message"]["content"]
    return text


def arguments_of(choice: dict[str, Any]) -> list[tuple[str, object]]:
    calls = [call["function"] for call in choice["message"]["tool_calls"]]
    return [(call["name"], json.loads(call["arguments"])) for call in calls]


@pytest.mark.parametrize(
    "request_text",
    [
        "call get_weather for Paris",
        "Please use the tool get_weather in Paris, now.",
        "RUN get_weather with city: Paris",
    ],
)
def test_a_tool_asked_for_by_name_is_called(http: httpx.Client, request_text: str) -> None:
    choice = ask(http, user(request_text), tools=[tool("get_time"), tool("get_weather")])

    assert arguments_of(choice) == [("get_weather", {"city": "Paris"})]
    assert choice["finish_reason"] == "tool_calls"
    assert text_of(choice) == ""


@pytest.mark.parametrize("request_text", ["Do not call look now", "What is look?", "call lookout"])
def test_a_tool_that_is_not_asked_for_is_only_mentioned(
    http: httpx.Client, request_text: str
) -> None:
    choice = ask(http, user(request_text), tools=[tool("look")])

    assert "tool_calls" not in choice["message"]
    assert "I may call look: write “call look” and I do." in text_of(choice)


def test_two_tools_asked_for_are_called_together(http: httpx.Client) -> None:
    asked, tools = (
        user("use get_weather and get_time for Rome"),
        [tool("get_weather"), tool("get_time")],
    )

    both = ask(http, asked, tools=tools)
    one = ask(http, asked, tools=tools, parallel_tool_calls=False)

    ids = {call["id"] for call in both["message"]["tool_calls"]}
    assert arguments_of(both) == [("get_weather", {"city": "Rome"}), ("get_time", {"city": "Rome"})]
    assert len(ids) == 2
    assert arguments_of(one) == [("get_weather", {"city": "Rome"})]


def test_a_forbidden_tool_is_not_called(http: httpx.Client) -> None:
    choice = ask(http, user("call look"), tools=[tool("look")], tool_choice="none")

    assert text_of(choice).endswith("You said: call look")


def test_a_required_call_is_made_unasked(http: httpx.Client) -> None:
    choice = ask(http, user("Hi"), tools=[tool("look")], tool_choice="required")

    assert arguments_of(choice) == [("look", {"city": "any city"})]
    assert choice["finish_reason"] == "tool_calls"


def test_a_named_call_is_made_and_ends_as_vllm_ends_it(http: httpx.Client) -> None:
    named = {"type": "function", "function": {"name": "b"}}

    choice = ask(http, user("Hi"), tools=[tool("a"), tool("b")], tool_choice=named)

    assert arguments_of(choice) == [("b", {"city": "any city"})]
    assert choice["finish_reason"] == "stop"


def test_after_a_result_it_answers_in_words(http: httpx.Client) -> None:
    asked = user("call get_weather for Paris")
    called = ask(http, asked, tools=[tool("get_weather")])["message"]
    result = {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "20 °C"}

    choice = ask(http, asked, called, result, tools=[tool("get_weather")])

    assert "The result of get_weather is: 20 °C" in text_of(choice)
    assert choice["finish_reason"] == "stop"


def test_a_call_is_streamed_name_first(http: httpx.Client) -> None:
    body = {"messages": [user("call look for Paris")], "tools": [tool("look")], "stream": True}
    lines = http.post("/v1/chat/completions", json=body).text.split("\n\n")[:-2]

    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines]
    first, *others = (choice["delta"]["tool_calls"][0] for choice in choices[1:-1])
    assert first.pop("id").startswith("chatcmpl-tool-")
    assert first == {"type": "function", "index": 0, "function": {"name": "look"}}
    arguments = "".join(call["function"]["arguments"] for call in others)
    assert json.loads(arguments) == {"city": "Paris"}
    assert choices[-1]["finish_reason"] == "tool_calls"


def test_the_sdk_collects_a_streamed_call(http: httpx.Client) -> None:
    with openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="any") as sdk:
        stream = sdk.chat.completions.create(
            model="demo",
            messages=[{"role": "user", "content": "call look for Paris"}],
            tools=[{"type": "function", "function": {"name": "look", "parameters": WEATHER}}],
            stream=True,
        )
        calls = [c for chunk in stream for c in chunk.choices[0].delta.tool_calls or ()]

    assert calls[0].function is not None
    assert calls[0].function.name == "look"
    assert "".join(c.function.arguments or "" for c in calls if c.function) == '{"city": "Paris"}'


@pytest.mark.parametrize(("limit", "kept"), [(1, []), (4, ['{"']), (99, ['{"city": "Rome"}'])])
def test_a_call_ends_where_its_limit_is(http: httpx.Client, limit: int, kept: list[str]) -> None:
    choice = ask(http, user("call examine for Rome"), tools=[tool("examine")], max_tokens=limit)

    calls = choice["message"].get("tool_calls", [])
    assert [call["function"]["arguments"] for call in calls] == kept
    assert choice["finish_reason"] == ("tool_calls" if limit == 99 else "length")
    assert choice["usage"]["completion_tokens"] <= limit


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "blue sky"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "integer"}, 7),
        ({"type": "number"}, 7.0),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["null", "integer"]}, 7),
        ({"type": "array", "items": {"type": "string"}}, ["blue sky"]),
        ({"properties": {"b": {"const": "x"}}}, {"b": "x"}),
        ({"enum": ["red", "blue"]}, "blue"),
        ({"enum": ["red", "green"]}, "red"),
        ({"type": "string", "default": "d"}, "d"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, True),
        ({"$ref": "#/$defs/Flag"}, True),
        ({"$ref": "elsewhere.json"}, "blue sky"),
        (True, "blue sky"),
    ],
)
def test_an_argument_fits_its_schema(http: httpx.Client, schema: object, value: object) -> None:
    parameters = {
        "type": "object",
        "properties": {"a": schema},
        "$defs": {"Flag": {"type": "boolean"}},
    }

    choice = ask(http, user('call look with "blue sky" 7 times'), tools=[tool("look", parameters)])

    assert arguments_of(choice) == [("look", {"a": value})]


@pytest.mark.parametrize(
    ("schema", "value"),
    [({"type": "integer", "minimum": 3}, 3), ({"type": "integer"}, 1), ({}, "any a")],
)
def test_an_argument_that_is_not_said_is_made_up(
    http: httpx.Client, schema: object, value: object
) -> None:
    parameters = {"type": "object", "properties": {"a": schema}}

    choice = ask(http, user("call look"), tools=[tool("look", parameters)])

    assert arguments_of(choice) == [("look", {"a": value})]


def test_a_number_may_be_given_by_its_name(http: httpx.Client) -> None:
    parameters = {"type": "object", "properties": {"days": {"type": "integer"}}}

    choice = ask(http, user("call look 5 times, days=3"), tools=[tool("look", parameters)])

    assert arguments_of(choice) == [("look", {"days": 3})]


@pytest.mark.parametrize("reference", ["#/$defs/Tree", "#/properties/tree"])
def test_a_schema_that_contains_itself_comes_to_an_end(http: httpx.Client, reference: str) -> None:
    branches = {name: {"$ref": "#/$defs/Tree"} for name in "abcdefghij"}
    parameters = {
        "$defs": {"Tree": {"type": "object", "properties": branches}},
        "properties": {"tree": {"$ref": reference}},
    }

    choice = ask(http, user("call look"), tools=[tool("look", parameters)])

    assert choice["finish_reason"] == "tool_calls"


def test_an_image_is_seen_at_a_flat_price(http: httpx.Client) -> None:
    text = {"type": "text", "text": "What is this?"}

    def seen(url: str) -> dict[str, Any]:
        return ask(http, user([text, {"type": "image_url", "image_url": {"url": url}}]))

    plain, small, large = ask(http, user([text])), seen(PNG), seen(PNG + "QUJD" * 50_000)

    assert "I see 1 image (image/png)." in text_of(small)
    assert text_of(small).endswith("You said: What is this?")
    price = small["usage"]["prompt_tokens"] - plain["usage"]["prompt_tokens"]
    assert price == IMAGE_TOKENS
    assert small["usage"]["prompt_tokens"] == large["usage"]["prompt_tokens"]


def test_images_in_other_forms_are_seen_too(http: httpx.Client) -> None:
    inside = {"role": "tool", "content": [{"type": "input_image", "image_url": PNG}]}
    remote = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}

    choice = ask(http, user([remote, {"type": "image"}]), inside)

    assert "I see 3 images (an address that I do not open, image/png)." in text_of(choice)


def test_parts_of_other_kinds_are_mentioned(http: httpx.Client) -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "QUJD" * 1000, "format": "wav"}}

    plain, choice = ask(http, user([])), ask(http, user([audio, {"x": 1}, 5]))

    assert "I see 3 parts that I cannot read (input_audio, unknown)." in text_of(choice)
    price = choice["usage"]["prompt_tokens"] - plain["usage"]["prompt_tokens"]
    assert price == 3 * OTHER_PART_TOKENS


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text"}], 5, {"type": "blob"}])
def test_content_without_text_is_no_error(http: httpx.Client, content: object) -> None:
    assert text_of(ask(http, user(content))).endswith("You said nothing that I can read.")


@pytest.mark.parametrize(
    "content",
    ["hey", ["hey"], [{"type": "text", "text": "hey"}], [{"type": "refusal", "refusal": "hey"}]],
)
def test_content_with_text_is_read_in_every_form(http: httpx.Client, content: object) -> None:
    assert text_of(ask(http, user(content))).endswith("You said: hey")


def test_many_roles_and_results_are_summed_up(http: httpx.Client) -> None:
    odd = [{"role": f"role{number}"} for number in range(30)]
    orphan = {"role": "tool", "tool_call_id": "lost", "content": None}
    tools = [tool(f"tool{number}") for number in range(12)]

    text = text_of(ask(http, *odd, orphan, tools=tools))

    assert "I see 31 messages (1 role0, 1 role1," in text
    assert "The result of a tool is: empty" in text
    assert "tool9, …: write" in text


def test_a_conversation_of_results_only_is_answered(http: httpx.Client) -> None:
    text = text_of(ask(http, *({"role": "tool", "content": said} for said in ("one", "two"))))

    assert "The result of a tool is: one The result of a tool is: two" in text


def test_arguments_sent_as_an_object_are_read(http: httpx.Client) -> None:
    call = {"function": {"name": "look", "arguments": {"at": ["the", None, "sky"]}}}
    bare = ask(http, user("Hi"), {"role": "assistant", "tool_calls": [{}]})
    full = ask(http, user("Hi"), {"role": "assistant", "tool_calls": [call]})

    assert full["usage"]["prompt_tokens"] == bare["usage"]["prompt_tokens"] + 4
