import json
import threading
import time
from collections.abc import Iterator

import httpx
import openai
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.demo.model.answers import words_of
from chat_proxy.demo.model.model import DemoModel
from chat_proxy.demo.model.template import (
    IMAGE_TOKENS,
    LONGEST_TOKEN_CHARACTERS,
    MESSAGE_TOKENS,
    REPLY_TOKENS,
)
from chat_proxy.demo.model.template import split as split_into_tokens

WINDOW = 1000
OVERHEAD = MESSAGE_TOKENS + REPLY_TOKENS
HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "look"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 30_000}}


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    model = DemoModel(window=WINDOW, words_per_second=0)
    server = uvicorn.Server(uvicorn.Config(model, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        yield client
    server.should_exit = True
    thread.join()


def ask(http: httpx.Client, **fields: object) -> httpx.Response:
    body = {"model": "demo", "messages": HELLO} | fields
    return http.post("/v1/chat/completions", json=body)


def prompt_of(tokens: int) -> list[dict[str, object]]:
    """Return a conversation that has exactly so many tokens."""
    return [{"role": "user", "content": "word" + " word" * (tokens - OVERHEAD - 1)}]


def refusal(response: httpx.Response) -> tuple[int, str, str, str | None]:
    error = response.json()["error"]
    assert error["code"] == response.status_code
    return response.status_code, error["type"], error["message"], error["param"]


@pytest.mark.parametrize("path", ["/", "/v1/nope", "/v1/models/demo", "/v1/chat/completions/"])
def test_an_unknown_path_is_not_found(http: httpx.Client, path: str) -> None:
    found = refusal(http.get(path))

    assert found == (404, "NotFoundError", "Not Found", None)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/chat/completions"), ("POST", "/v1/models"), ("DELETE", "/health")],
)
def test_a_wrong_method_is_not_allowed(http: httpx.Client, method: str, path: str) -> None:
    found = refusal(http.request(method, path))

    assert found == (405, "MethodNotAllowedError", "Method Not Allowed", None)


def test_another_model_does_not_exist(http: httpx.Client) -> None:
    found = refusal(ask(http, model="gpt-4o"))

    complaint = "The model `gpt-4o` does not exist. Valid aliases: demo."
    assert found == (404, "NotFoundError", complaint, "model")


def test_the_sdk_raises_its_own_error_for_another_model(http: httpx.Client) -> None:
    with (
        openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="any") as client,
        pytest.raises(openai.NotFoundError, match="does not exist"),
    ):
        client.chat.completions.create(model="x", messages=[{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize(
    ("body", "param", "complaint"),
    [
        (b"", "body", "{'type': 'missing', 'loc': 'body', 'msg': 'Field required'"),
        (b'{"messages": [', "body.14", "'type': 'json_invalid', 'loc': 'body.14'"),
        (b"\xff{}", "body.0", "JSON decode error"),
        (b'{"messages": [{"role": "user", "content": "\\ud83d"}]}', "body.43", "surrogate"),
        (b"[" * 2000, "body.1025", "depth"),
        (b"[]", "body", "'input': '<list of 0 items>'"),
        (b"{}", "body.messages", "'input': '<dict of 0 items>'"),
        (b'{"messages": "hi"}', "body.messages", "Input should be a valid list"),
        (b'{"messages": ["hi"]}', "body.messages.0.role", "Field required"),
        (b'{"messages": [], "n": "two"}', "body.n", "Input should be a valid integer"),
        (b'{"messages": [], "max_tokens": true}', "body.max_tokens", "valid integer"),
        (b'{"messages": [], "tools": {}}', "body.tools", "Input should be a valid list"),
        (b'{"messages": [], "tools": [1]}', "body.tools.0.type", "should be 'function'"),
        (
            b'{"messages": [], "tools": [{"type": "function"}]}',
            "body.tools.0.function.name",
            "Field required",
        ),
    ],
)
def test_a_body_of_the_wrong_form_is_refused(
    http: httpx.Client, body: bytes, param: str, complaint: str
) -> None:
    status, kind, message, place = refusal(http.post("/v1/chat/completions", content=body))

    assert (status, kind, place) == (400, "Bad Request", param)
    assert message.startswith("1 validation error:\n  {'type': ")
    assert complaint in message


@pytest.mark.parametrize(
    ("fields", "param", "complaint"),
    [
        (
            {"messages": []},
            None,
            "Cannot apply chat template to an empty conversation. Provide at ",
        ),
        ({"tools": []}, "tools", "`tools` must not be an empty array. Either provide at least "),
        ({"tool_choice": "none"}, "tool_choice", "When using `tool_choice`, `tools` must be set."),
        ({"tools": [TOOL], "tool_choice": "some"}, "tool_choice", "Invalid value for `tool_cho"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "x"}}},
            "tool_choice",
            "The tool specified in `tool_choice` does not match any of the specified `tools`.",
        ),
        (
            {"stream_options": {"include_usage": True}},
            "stream_options",
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
        ),
        ({"n": 0}, "n", "n must be at least 1, got 0. (parameter=n, value=0)"),
        ({"n": 5}, "n", "n must be at most 4, got 5. (parameter=n, value=5)"),
        (
            {"max_tokens": 0},
            "max_tokens",
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
        ),
        (
            {"max_tokens": -1},
            "max_tokens",
            "max_tokens must be at least 1, got -1. (parameter=max_tokens, value=-1)",
        ),
        (
            {"max_completion_tokens": 5000},
            "max_completion_tokens",
            "max_completion_tokens=5000 cannot be greater than max_model_len=1000. Please request",
        ),
    ],
)
def test_a_field_of_the_wrong_value_is_refused(
    http: httpx.Client, fields: dict[str, object], param: str | None, complaint: str
) -> None:
    status, kind, message, place = refusal(ask(http, **fields))

    assert (status, kind, place) == (400, "BadRequestError", param)
    assert message.startswith(complaint)


@pytest.mark.parametrize(("room", "asked", "said"), [(3, None, 3), (3, 1, 1), (3, 5, 3), (1, 5, 1)])
def test_an_answer_is_clipped_to_what_is_left_of_the_window(
    http: httpx.Client, room: int, asked: int | None, said: int
) -> None:
    answer = ask(http, messages=prompt_of(WINDOW - room), max_tokens=asked).json()

    assert answer["usage"]["prompt_tokens"] == WINDOW - room
    assert answer["usage"]["completion_tokens"] == said
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_fills_the_window_leaves_no_token_to_answer(
    http: httpx.Client,
    stream: bool,
) -> None:
    found = refusal(ask(http, messages=prompt_of(WINDOW), stream=stream))

    complaint = "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"
    assert found == (400, "BadRequestError", complaint, "max_tokens")


@pytest.mark.parametrize("tokens", [WINDOW + 1, 5 * WINDOW])
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_over_the_window_is_refused_in_the_words_of_vllm(
    http: httpx.Client,
    tokens: int,
    stream: bool,
) -> None:
    found = refusal(ask(http, messages=prompt_of(tokens), stream=stream))

    complaint = (
        "This model's maximum context length is 1000 tokens. However, your prompt contains at "
        "least 1001 input tokens, which exceeds this limit even without any output tokens. Please "
        "reduce the length of the input prompt. (parameter=input_tokens, value=1001)"
    )
    assert found == (400, "BadRequestError", complaint, "input_tokens")


def test_a_prompt_far_over_the_window_is_refused_by_its_characters(http: httpx.Client) -> None:
    found = refusal(ask(http, messages=[{"role": "user", "content": "x" * 64_001}]))

    complaint = (
        "This model's maximum context length is 1000 tokens. However, your prompt contains 64001 "
        "characters (more than 64000 characters, which is the upper bound for 1000 input tokens). "
        "Please reduce the length of the input prompt. (parameter=input_text, value=64001)"
    )
    assert found == (400, "BadRequestError", complaint, "input_text")


def test_images_over_the_window_are_refused_by_their_length(http: httpx.Client) -> None:
    found = refusal(ask(http, messages=[{"role": "user", "content": [IMAGE, IMAGE]}]))

    length = OVERHEAD + 2 * IMAGE_TOKENS
    complaint = f"Input length ({length}) exceeds model's maximum context length (1000)."
    assert found == (400, "BadRequestError", complaint, None)


def test_tools_and_calls_take_their_part_of_the_window(http: httpx.Client) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
    calling = {"role": "assistant", "content": None, "tool_calls": [call]}

    plain = ask(http).json()["usage"]["prompt_tokens"]
    with_tools = ask(http, tools=[TOOL]).json()["usage"]["prompt_tokens"]
    with_call = ask(http, messages=[*HELLO, calling]).json()["usage"]["prompt_tokens"]

    assert with_tools > plain
    assert with_call > plain + MESSAGE_TOKENS


@given(st.text())
def test_tokens_and_words_joined_again_are_the_text(text: str) -> None:
    tokens = split_into_tokens(text)

    assert "".join(tokens) == text
    assert "".join(words_of(text)) == text
    assert all(len(token) <= LONGEST_TOKEN_CHARACTERS for token in tokens)


def test_a_deep_tool_is_counted_and_not_an_error(http: httpx.Client) -> None:
    deep = json.loads('{"a":' * 500 + "1" + "}" * 500)
    tool = {"type": "function", "function": {"name": "look", "parameters": deep}}

    assert ask(http, tools=[tool], tool_choice="required").status_code == 200
