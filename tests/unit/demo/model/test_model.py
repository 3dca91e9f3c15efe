import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_proxy.demo.model.answers import words_of
from chat_proxy.demo.model.model import DemoModel, Event
from tests.support.clock import PATIENCE_SECONDS

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "Hello there"}]


@contextmanager
def serving(model: DemoModel) -> Iterator[str]:
    """Serve a model on a free loopback port and yield its address."""
    server = uvicorn.Server(uvicorn.Config(model, port=0, lifespan="on", log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def talking_to(model: DemoModel) -> Iterator[httpx.Client]:
    """Serve a model and yield an HTTP client of it."""
    with serving(model) as url, httpx.Client(base_url=url) as http:
        yield http


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with talking_to(DemoModel(words_per_second=0)) as client:
        yield client


@pytest.fixture(scope="module")
def sdk(http: httpx.Client) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="any", max_retries=0) as client:
        yield client


class Pauses:
    """Pauses of one length that remember what was asked for and whether one was broken off."""

    def __init__(self, seconds: float) -> None:
        self.asked: list[float] = []
        self.broken_off = threading.Event()
        self._seconds = seconds

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.broken_off.set()
            raise


class Steps:
    """Pauses that end when the client has taken all pieces but the last one."""

    def __init__(self) -> None:
        self.asked = 0
        self.taken = 0
        self.waited_in_vain = False
        self._until = time.monotonic() + PATIENCE_SECONDS

    async def __call__(self, _: float) -> None:
        self.asked += 1
        while self.taken < self.asked - 1 and not self.waited_in_vain:
            await asyncio.sleep(0.001)
            self.waited_in_vain = time.monotonic() > self._until


def ask(http: httpx.Client, **fields: object) -> httpx.Response:
    body = {"model": "demo", "messages": HELLO} | fields
    return http.post(CHAT, json=body)


def events(response: httpx.Response) -> list[str]:
    return [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(event) for event in events(response)[:-1]]


def test_it_is_healthy(http: httpx.Client) -> None:
    assert http.get("/health").status_code == 200


def test_it_lists_itself_with_its_window(http: httpx.Client) -> None:
    listing = http.get("/v1/models").json()

    card = listing["data"][0]
    assert listing["object"] == "list"
    assert card.pop("created") > 0
    assert card == {
        "id": "demo",
        "object": "model",
        "owned_by": "chat-proxy",
        "root": "demo",
        "parent": None,
        "max_model_len": 4096,
    }


def test_the_sdk_lists_it(sdk: openai.OpenAI) -> None:
    assert [model.id for model in sdk.models.list()] == ["demo"]


def test_it_says_what_it_sees(http: httpx.Client) -> None:
    answer = ask(http).json()

    text = answer["choices"][0]["message"]["content"]
    assert answer["object"] == "chat.completion"
    assert text.startswith("I am the demo model. I see 1 message (1 user), about 11 tokens of")
    assert text.endswith("You said: Hello there")


def test_the_sdk_reads_its_answer(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": "Hello"}]
    )

    assert "You said: Hello" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_the_sdk_reads_its_stream(sdk: openai.OpenAI) -> None:
    stream = sdk.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": "Hello"}], stream=True
    )

    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text.startswith("I am the demo model.")
    assert text.endswith("You said: Hello")


def test_it_summarises_when_it_is_asked_to(http: httpx.Client) -> None:
    sections = "Goal, Key Decisions, Next Steps, Critical Context, Relevant Files"
    asked = {"role": "user", "content": f"Summarise under the headings {sections}."}

    answer = ask(http, messages=[*HELLO, asked]).json()

    assert answer["choices"][0]["message"]["content"].startswith("## Goal\n- Hello there\n")
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_the_same_request_has_the_same_answer(http: httpx.Client) -> None:
    first, second = ask(http).json(), ask(http).json()

    assert first | {"created": 0} == second | {"created": 0}


def test_a_request_without_a_model_is_for_this_one(http: httpx.Client) -> None:
    assert ask(http, model=None).json()["model"] == "demo"


def test_a_body_may_begin_with_a_byte_order_mark(http: httpx.Client) -> None:
    body = b"\xef\xbb\xbf" + json.dumps({"messages": HELLO}).encode()

    assert http.post(CHAT, content=body).status_code == 200


def test_a_stream_is_a_role_then_words_then_a_reason_then_done(http: httpx.Client) -> None:
    response = ask(http, stream=True)

    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert events(response)[-1] == "[DONE]"
    first, *words, last = (chunk["choices"][0] for chunk in chunks(response))
    assert first["delta"] == {"role": "assistant", "content": ""}
    assert [word["delta"]["content"] for word in words[:3]] == ["I ", "am ", "the "]
    assert {word["finish_reason"] for word in words} == {None}
    assert (last["delta"], last["finish_reason"]) == ({}, "stop")


def test_a_stream_says_the_same_as_one_piece(http: httpx.Client) -> None:
    whole = ask(http).json()
    streamed = chunks(ask(http, stream=True))

    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in streamed)
    assert text == whole["choices"][0]["message"]["content"]
    assert {chunk["object"] for chunk in streamed} == {"chat.completion.chunk"}


def test_usage_comes_last_and_only_when_asked_for(http: httpx.Client) -> None:
    whole = ask(http).json()
    silent = chunks(ask(http, stream=True))
    *others, last = chunks(ask(http, stream=True, stream_options={"include_usage": True}))

    assert not any("usage" in chunk for chunk in [*silent, *others])
    assert last["choices"] == []
    assert last["usage"] == whole["usage"]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_an_answer_ends_where_its_limit_is(http: httpx.Client, name: str) -> None:
    answer = ask(http, **{name: 5}).json()

    assert answer["choices"][0]["message"]["content"] == "I am the demo mode"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 5


def test_several_answers_are_numbered_and_counted(http: httpx.Client) -> None:
    answer = ask(http, n=4).json()

    texts = [choice["message"]["content"] for choice in answer["choices"]]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert texts[3].endswith("This is answer 4 of 4.")
    assert len(set(texts)) == 4


def test_several_answers_are_streamed_each_to_its_end(http: httpx.Client) -> None:
    choices = [chunk["choices"][0] for chunk in chunks(ask(http, n=2, stream=True))]

    assert [choice["delta"].get("role") for choice in choices[:2]] == ["assistant", "assistant"]
    assert [c["index"] for c in choices if c["finish_reason"] == "stop"] == [0, 1]


@pytest.mark.parametrize("stream", [False, True])
def test_words_are_said_at_their_pace(stream: bool) -> None:
    pauses = Pauses(0)
    with talking_to(DemoModel(words_per_second=50, sleep=pauses)) as http:
        text = ask(http, n=1).json()["choices"][0]["message"]["content"]
        pauses.asked.clear()
        ask(http, stream=stream)

    assert set(pauses.asked) == {0.02}
    assert len(pauses.asked) == len(words_of(text)) + 1


def test_words_arrive_one_after_the_other() -> None:
    """Each pause lasts until the client has what was said before the one before it."""
    steps = Steps()
    with (
        talking_to(DemoModel(words_per_second=250, sleep=steps)) as http,
        http.stream("POST", CHAT, json={"messages": HELLO, "stream": True}) as response,
    ):
        for _ in response.iter_raw():
            steps.taken += 1

    assert steps.asked > 5
    assert steps.taken >= steps.asked - 1
    assert not steps.waited_in_vain


def test_a_stream_stops_when_its_client_goes() -> None:
    pauses = Pauses(0.05)
    with talking_to(DemoModel(sleep=pauses)) as http:
        body = {"messages": HELLO, "stream": True}
        with http.stream("POST", CHAT, json=body) as response:
            next(response.iter_raw())

        assert pauses.broken_off.wait(PATIENCE_SECONDS)


def test_an_answer_in_one_piece_stops_when_its_client_goes() -> None:
    pauses = Pauses(0.05)
    with talking_to(DemoModel(sleep=pauses)) as http:
        body = json.dumps({"messages": HELLO})
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", http.base_url.port or 0)) as client:
            client.sendall((head + body).encode())
            while not pauses.asked:
                time.sleep(0.005)

        assert pauses.broken_off.wait(PATIENCE_SECONDS)


def test_a_client_that_goes_in_mid_request_leaves_nothing_behind(http: httpx.Client) -> None:
    with socket.create_connection(("127.0.0.1", http.base_url.port or 0)) as client:
        client.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{{".encode())

    assert ask(http).status_code == 200


def test_a_request_in_pieces_is_read_whole(http: httpx.Client) -> None:
    pieces = (piece for piece in (b'{"messages": [{"role": "user",', b' "content": "in two"}]}'))

    answer = http.post(CHAT, content=pieces).json()

    assert answer["choices"][0]["message"]["content"].endswith("You said: in two")


def test_it_takes_no_part_in_other_protocols() -> None:
    async def refuse() -> Event:
        raise AssertionError

    async def ignore(event: Mapping[str, Any]) -> None:
        raise AssertionError

    asyncio.run(DemoModel()({"type": "websocket"}, refuse, ignore))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
PART = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url", "file", "input_audio"]) | JSON},
    optional={"text": JSON, "image_url": JSON},
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "odd"])},
    optional={
        "content": JSON | st.lists(PART, max_size=2),
        "tool_calls": JSON | st.lists(st.fixed_dictionaries({"function": JSON}), max_size=2),
        "tool_call_id": JSON,
        "reasoning": JSON,
    },
)
TOOL = st.fixed_dictionaries(
    {
        "type": st.just("function"),
        "function": st.fixed_dictionaries(
            {"name": st.just("f")},
            optional={
                "parameters": st.fixed_dictionaries(
                    {"properties": st.dictionaries(st.text(max_size=3), JSON, max_size=2)},
                    optional={"required": JSON, "enum": JSON, "anyOf": JSON, "$ref": JSON},
                )
            },
        ),
    }
)
BODY = st.fixed_dictionaries(
    {"messages": st.lists(MESSAGE, max_size=4) | JSON},
    optional={
        "model": JSON,
        "stream": st.booleans(),
        "stream_options": JSON,
        "max_tokens": JSON,
        "n": JSON,
        "tools": JSON | st.lists(TOOL, max_size=2),
        "tool_choice": JSON | st.sampled_from(["auto", "none", "required"]),
    },
)


@given(body=BODY | JSON)
@settings(max_examples=60, deadline=None)
def test_whatever_is_asked_there_is_an_answer(http: httpx.Client, body: object) -> None:
    response = http.post(CHAT, content=json.dumps(body))

    assert response.status_code in {200, 400, 404}
    if response.status_code != 200:
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
