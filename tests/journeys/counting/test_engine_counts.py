"""An engine's vocabulary and its own counts are asked for beside requests, and hold at once."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from chat_proxy.tokens.calibration.vocabulary_probes import PROBES, TOKENS
from tests.support.clock import own_time
from tests.support.fake_model import COMPLETION, Line, Received, answer_json, fake_model
from tests.support.live import (
    Proxy,
    RawAnswer,
    chat_body,
    chat_request,
    eventually,
    raw_client,
    running_proxy,
)
from tests.support.wire_model import post

pytestmark = pytest.mark.anyio

HINDI = "आज हम इस समस्या के कुछ समाधानों पर विस्तार से चर्चा करेंगे। " * 12
UNSUPPORTED = {
    "error": {
        "code": 400,
        "message": "unsupported content[].type",
        "type": "invalid_request_error",
    }
}
"""llama.cpp's own words about a content part that chat completions do not have."""
BEFORE = "x-chat-proxy-tokens-before"
REAL_TOKENS = {"tekken": 266, "cl100k": 673}
"""The tokens of that text in the vocabularies themselves."""


@dataclass
class Engine:
    """An engine with the count endpoints of its kind; its chats report no usage."""

    owner: str = "vllm"
    missing: tuple[str, ...] = ()
    tokens: int = 600
    pause: float = 0.0
    vocabulary: str = ""
    """The vocabulary that its tokenizer shows; without one it makes a token of every byte."""
    status_of_texts: int = 200
    questions: list[Received] = field(default_factory=list)
    """The questions about requests."""
    texts: list[Received] = field(default_factory=list)
    """The questions about texts."""
    counted: int = 0

    async def __call__(self, received: Received, line: Line) -> None:
        path = received.target
        if path == "/v1/models":
            card = {"id": "fake", "owned_by": self.owner, "max_model_len": 100_000}
            await answer_json(line, {"data": [card]})
        elif path in ("/v1/chat/completions", "/v1/responses"):
            await answer_json(line, {**COMPLETION, "usage": None})
        elif path == "/tokenize" and (text := text_in(received.body)):
            self.texts.append(received)
            status = 404 if path in self.missing else self.status_of_texts
            await answer_json(line, self.tokenized(text), status)
        else:
            self.questions.append(received)
            await asyncio.sleep(self.pause)
            if self.owner == "llamacpp" and b'"input_text"' in received.body:
                await answer_json(line, UNSUPPORTED, 400)
                return
            self.counted += 1
            name = "count" if path == "/tokenize" else "input_tokens"
            status = 404 if path in self.missing else 200
            await answer_json(line, {name: self.tokens}, status)

    def tokenized(self, text: str) -> dict[str, Any]:
        """Return the tokens of a text in the form of this kind of engine."""
        number = len(text.encode())
        if self.vocabulary:
            number = TOKENS[self.vocabulary][PROBES.index(text)]
        tokens = list(range(number))
        return {"tokens": tokens} if self.owner == "llamacpp" else {"count": number}

    @property
    def asked(self) -> list[str]:
        """The paths of the questions."""
        return [question.target for question in self.questions]


def text_in(body: bytes) -> str:
    """Return the text that is to be tokenized, if the question is about one."""
    fields = json.loads(body)
    return str(fields.get("prompt") or fields.get("content") or "")


@asynccontextmanager
async def serving(engine: Engine, *, ask_engine: bool = True) -> AsyncIterator[Proxy]:
    async with (
        fake_model(engine) as model,
        running_proxy(model.url, tokens={"ask_engine": ask_engine}) as proxy,
    ):
        yield proxy


async def ask(proxy: Proxy, *headers: str, **fields: Any) -> RawAnswer:
    async with raw_client(proxy) as client:
        await client.send(chat_request(chat_body(**fields), *headers))
        return await client.answer()


async def explained(proxy: Proxy) -> dict[str, Any]:
    """Return what the proxy tells of the tokens of the Hindi text."""
    request = chat_request(chat_body(messages=user(HINDI)))
    async with raw_client(proxy) as client:
        await client.send(request.replace(b"/chat/completions", b"/chat/explain", 1))
        told: dict[str, Any] = json.loads((await client.answer()).body)["tokens"]
    return told


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("owner", "path"),
    [("vllm", "/tokenize"), ("llamacpp", "/v1/chat/completions/input_tokens")],
)
async def test_what_the_engine_says_calibrates_at_once(owner: str, path: str) -> None:
    engine = Engine(owner)
    async with serving(engine) as proxy:
        await ask(proxy, messages=user(HINDI))
        await eventually(lambda: engine.questions)
        await asyncio.sleep(0.1)
        again = await ask(proxy, messages=user(HINDI))

    assert engine.asked == [path]
    assert json.loads(engine.questions[0].body)["messages"] == user(HINDI)
    assert int(again.headers[BEFORE]) == pytest.approx(engine.tokens, rel=0.03)


async def test_llama_cpp_is_asked_about_responses_in_words_that_it_knows() -> None:
    engine = Engine("llamacpp")
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": HINDI}]}
    body = json.dumps({"model": "fake", "input": [item]}).encode()
    async with serving(engine) as proxy, raw_client(proxy) as client:
        await client.send(post("/v1/responses", body))
        await client.answer()
        await eventually(lambda: engine.counted)
        await asyncio.sleep(0.1)
        await client.send(post("/v1/responses", body))
        again = await client.answer()

    assert int(again.headers[BEFORE]) == pytest.approx(engine.tokens, rel=0.03)


@pytest.mark.parametrize("owner", ["vllm", "llamacpp"])
@pytest.mark.parametrize(("vocabulary", "encoding"), [("tekken", "o200k_base"), ("cl100k", "")])
async def test_a_model_whose_name_tells_nothing_is_counted_in_the_vocabulary_of_its_engine(
    owner: str, vocabulary: str, encoding: str
) -> None:
    engine = Engine(owner, vocabulary=vocabulary, tokens=0)
    async with serving(engine) as proxy:
        before = await explained(proxy)
        await ask(proxy, messages=user(HINDI))
        await eventually(lambda: len(engine.texts) == 3)
        await asyncio.sleep(1)
        after = await explained(proxy)

    assert before["calibration"]["vocabulary"] == ""
    own = vocabulary if encoding else "exact"
    assert after["encoding"] == (encoding or "cl100k_base")
    calibration = after["calibration"]
    assert (calibration["vocabulary"], calibration["engine_vocabulary"]) == (own, vocabulary)
    assert after["by_kind"]["text"] == pytest.approx(REAL_TOKENS[vocabulary], rel=0.02)
    assert [text_in(question.body) for question in engine.texts] == list(PROBES)


async def test_a_vocabulary_is_asked_for_once_and_without_texts_of_clients() -> None:
    engine = Engine(vocabulary="tekken")
    async with serving(engine) as proxy:
        for number in range(3):
            await ask(proxy, "authorization: Bearer anne", messages=user(f"{HINDI} {number}"))
            await asyncio.sleep(1.1)

    assert [text_in(question.body) for question in engine.texts] == list(PROBES)
    for question in (*engine.texts, *engine.questions):
        assert question.header("x-chat-proxy-purpose") == "tokenize"
        assert question.header("authorization") == "Bearer anne"
        assert json.loads(question.body)["model"] == "fake"


async def test_an_engine_that_fails_to_tokenize_texts_is_asked_again_later() -> None:
    engine = Engine(status_of_texts=500)
    async with serving(engine) as proxy:
        assert (await ask(proxy, messages=user(HINDI))).status == 200
        await eventually(lambda: engine.texts)
        await asyncio.sleep(1.1)
        again = await ask(proxy, messages=user(HINDI))
        await asyncio.sleep(0.1)

    assert again.status == 200
    assert (len(engine.texts), engine.questions) == (1, [])


async def test_no_request_waits_for_the_engines_count() -> None:
    engine = Engine(pause=5)
    async with serving(engine) as proxy:
        began = own_time()
        for _ in range(3):
            assert (await ask(proxy, messages=user(HINDI))).status == 200

        assert own_time() - began < 2
        await eventually(lambda: engine.questions)


async def test_one_question_at_a_time_is_asked_about_a_model() -> None:
    engine = Engine()
    async with serving(engine) as proxy:
        await asyncio.gather(*(ask(proxy, messages=user(HINDI + str(n))) for n in range(20)))
        await asyncio.sleep(0.1)

    assert len(engine.questions) == 1


async def test_a_question_has_the_credentials_of_its_own_request() -> None:
    """No tenant's text is sent with the key of another."""
    engine = Engine(pause=0.2)
    async with serving(engine) as proxy:
        for name in ("anne", "bert"):
            # Other models: each may be asked about at once.
            bearer = f"authorization: Bearer {name}"
            await ask(proxy, bearer, model=f"fake-{name}", messages=user(f"{HINDI} {name}"))
        await eventually(lambda: len(engine.questions) == 2)

    for question in engine.questions:
        name = json.loads(question.body)["model"].removeprefix("fake-")
        assert question.header("authorization") == f"Bearer {name}"
        assert json.loads(question.body)["messages"][0]["content"].endswith(name)


async def test_where_tokenize_is_hidden_the_anthropic_form_is_used() -> None:
    engine = Engine(missing=("/tokenize",))
    async with serving(engine) as proxy:
        system = {"role": "system", "content": "Be brief."}
        await ask(proxy, messages=[system, *user(HINDI)])
        await eventually(lambda: len(engine.questions) == 2)

    assert engine.asked == ["/tokenize", "/v1/messages/count_tokens"]
    asked = json.loads(engine.questions[1].body)
    assert asked == {"model": "fake", "system": "Be brief.", "messages": user(HINDI)}


async def test_an_engine_without_such_endpoints_is_not_asked_again() -> None:
    engine = Engine(missing=("/tokenize", "/v1/messages/count_tokens"))
    async with serving(engine) as proxy:
        await ask(proxy, messages=user(HINDI))
        await eventually(lambda: len(engine.questions) == 2)
        await asyncio.sleep(1.1)
        await ask(proxy, messages=user(HINDI))
        await asyncio.sleep(0.1)

    assert len(engine.questions) == 2


@pytest.mark.parametrize(
    ("owner", "ask_engine"), [("openai", True), ("someone", True), ("vllm", False)]
)
async def test_hosted_apis_are_not_asked_and_no_engine_if_it_is_switched_off(
    owner: str, ask_engine: bool
) -> None:
    engine = Engine(owner)
    async with serving(engine, ask_engine=ask_engine) as proxy:
        assert (await ask(proxy, messages=user(HINDI))).status == 200
        await asyncio.sleep(0.1)

    assert not engine.questions


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "assistant", "content": "x", "reasoning_content": "hm"}]},
        {"messages": user("hi"), "continue_final_message": True},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "https://x.example/a"}}],
                }
            ]
        },
    ],
    ids=["reasoning", "a template of its own", "an image"],
)
async def test_what_the_endpoints_count_otherwise_is_not_asked(fields: dict[str, Any]) -> None:
    engine = Engine()
    async with serving(engine) as proxy:
        assert (await ask(proxy, **fields)).status == 200
        await asyncio.sleep(0.1)

    assert not engine.questions


@pytest.mark.parametrize("tokens", [0, -1, 10**9])
async def test_an_absurd_count_teaches_nothing(tokens: int) -> None:
    engine = Engine(tokens=tokens)
    async with serving(engine) as proxy:
        first = await ask(proxy, messages=user(HINDI))
        await eventually(lambda: engine.questions)
        await asyncio.sleep(0.1)
        again = await ask(proxy, messages=user(HINDI))

    assert again.headers[BEFORE] == first.headers[BEFORE]
