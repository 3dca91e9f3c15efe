"""The proxy learns how an upstream counts from what it reports, and keeps that over a restart."""

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.tokens.tiktoken_counter import TiktokenCounter
from tests.journeys.counting.conftest import Said
from tests.journeys.counting.pictures import image, png, text
from tests.support.fake_model import (
    COMPLETION,
    DONE,
    MODELS,
    Line,
    Received,
    answer_json,
    begin_stream,
    delta,
    event,
    fake_model,
)
from tests.support.live import Proxy, chat_body, chat_request, raw_client, running_proxy
from tests.support.meeting import Meeting, meeting

pytestmark = pytest.mark.anyio

TRUNCATES = "the upstream counts far fewer tokens than were sent: it may cut prompts silently"
WORDS = Path(__file__).read_text(encoding="utf-8").split()
PREAMBLE = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
</tools>

For each function call, return a json object with function name and arguments within
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""


# What is sent must be what was counted: these tests are about counting only.
UNTOUCHED: dict[str, Any] = {
    "vision": {"truncate_history": False},
    "prune": {"enabled": False},
    "summary": {"enabled": False},
    "budget": {"context_window": 1_000_000},
}


@dataclass
class Counts:
    """A model that counts prompts in its own way and reports it."""

    words: float = 1.0
    images: float = 1.0
    fixed: int = 0
    window: int = 10**9
    tokenizer: TiktokenCounter = field(default_factory=lambda: TiktokenCounter("o200k_base"))
    reported: list[int] = field(default_factory=list)
    usage: Any = None
    """What is reported instead, if something is."""

    def __post_init__(self) -> None:
        assert self.tokenizer.load()

    async def __call__(self, received: Received, line: Line) -> None:
        if received.method == "GET":
            await answer_json(line, MODELS)
            return
        request = json.loads(received.body)
        self.reported.append(min(self.prompt_tokens(request), self.window))
        usage = self.usage
        if usage is None:
            usage = {"prompt_tokens": self.reported[-1], "completion_tokens": 1}
        if not request.get("stream"):
            await answer_json(line, {**COMPLETION, "usage": usage})
            return
        await begin_stream(line)
        await line.chunk(delta("hello"))
        await line.chunk(delta(finish_reason="stop"))
        if request.get("stream_options", {}).get("include_usage"):
            await line.chunk(event({"choices": [], "usage": usage}))
        await line.chunk(DONE)
        await line.chunk(b"")

    def prompt_tokens(self, request: dict[str, Any]) -> int:
        """Render the prompt as a chat template would and count it."""
        prompt = [PREAMBLE, json.dumps(request["tools"])] if request.get("tools") else []
        pictures = 0
        for message in request["messages"]:
            for call in message.get("tool_calls", []):
                prompt += [call["function"]["name"], call["function"]["arguments"]]
            content = message.get("content") or ""
            parts = [text(content)] if isinstance(content, str) else content
            prompt += [part["text"] for part in parts if part["type"] == "text"]
            pictures += sum(part["type"] != "text" for part in parts)
        words = sum(map(self.tokenizer.count, prompt))
        frames = self.fixed + 5 * len(request["messages"])
        return round(self.words * words + self.images * 1600 * pictures + frames)


@dataclass
class CountsByScript(Counts):
    """A model whose vocabulary knows little besides English."""

    beyond: float = 1.0
    """What other characters cost, beside `words`."""

    def prompt_tokens(self, request: dict[str, Any]) -> int:
        texts = [message["content"] for message in request["messages"]]
        foreign = ["".join(filter(lambda char: char > "\u07ff", one)) for one in texts]
        further = (self.beyond - self.words) * sum(map(self.tokenizer.count, foreign))
        return super().prompt_tokens(request) + round(further)


def requests(seed: int, **fields: Any) -> Iterator[dict[str, Any]]:
    """Yield requests as they come: short and long, some with tools, some with images."""
    chance = random.Random(seed)

    def prose(most: int) -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(most // 10, most)))

    while True:
        pictures = [image(png(64, 64))] * chance.choice([0, 0, 0, 1, 2])
        tools = [tool(f"tool_{n}", prose(60)) for n in range(chance.choice([0, 0, 6, 12]))]
        steps = [step for n in range(3) for step in tool_step(n, prose(300))] if tools else []
        yield {
            "messages": [
                {"role": "system", "content": prose(100)},
                {"role": "user", "content": prose(1500)},
                {"role": "assistant", "content": prose(500)},
                *steps,
                {"role": "user", "content": [text(prose(400)), *pictures]},
            ],
            **({"tools": tools} if tools else {}),
            **fields,
        }


def tool(name: str, description: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def tool_step(number: int, output: str) -> list[dict[str, Any]]:
    function = {"name": "tool_1", "arguments": json.dumps({"path": f"/src/{number}.py"})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": output},
    ]


async def errors(met: Meeting, upstream: Counts, number: int, **fields: Any) -> list[float]:
    """Send so many requests; return how far each estimate was from what was then reported."""
    found = []
    for request, _ in zip(requests(len(upstream.reported), **fields), range(number), strict=False):
        answer = await met.ask(**request)
        assert answer.status == 200
        estimate = int(answer.headers["x-chat-proxy-tokens-before"])
        found.append(abs(estimate / upstream.reported[-1] - 1))
    return found


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * len(values))]


async def test_chinese_chats_do_not_change_the_estimate_of_english_ones() -> None:
    """Issue: after 20 Chinese chats a prompt of 83 tokens was estimated at 394."""
    upstream = CountsByScript(words=1.05, beyond=2.2)
    async with meeting(upstream, **UNTOUCHED) as met:
        for number in range(20):
            chat = f"{number} " + "今天我们讨论一下这个问题的几种解决办法。" * (5 + 7 * number)
            await met.ask(messages=[{"role": "user", "content": chat}])
        answer = await met.ask(messages=[{"role": "user", "content": " ".join(WORDS[:60])}])

    estimate = int(answer.headers["x-chat-proxy-tokens-before"])
    assert estimate == pytest.approx(upstream.reported[-1], rel=0.12)


async def test_a_short_request_after_long_ones_is_not_estimated_at_nothing() -> None:
    """Issue: `x-chat-proxy-tokens-before: 0` for the first curl of all."""
    upstream = Counts(words=0.9)
    async with meeting(upstream, **UNTOUCHED) as met:
        await errors(met, upstream, 12)
        answer = await met.ask(messages=[{"role": "user", "content": "hi"}])

    assert answer.headers["x-chat-proxy-tokens-before"].isdigit()
    assert abs(int(answer.headers["x-chat-proxy-tokens-before"]) - upstream.reported[-1]) <= 8


async def test_after_one_greeting_the_template_is_known() -> None:
    """Issue: after one "hi" the next chat was estimated at 83 of 137."""
    upstream = Counts(words=1.05, fixed=54)
    async with meeting(upstream, **UNTOUCHED) as met:
        await met.ask(messages=[{"role": "user", "content": "hi"}])
        answer = await met.ask(messages=[{"role": "user", "content": " ".join(WORDS[:45])}])

    estimate = int(answer.headers["x-chat-proxy-tokens-before"])
    assert estimate == pytest.approx(upstream.reported[-1], rel=0.08)


@pytest.mark.parametrize(
    ("words", "images", "fixed"),
    [(0.8, 0.6, 25), (1.3, 1.0, 0), (1.3, 2.0, 150), (2.4, 0.8, 60), (1.0, 1.0, 0)],
)
async def test_after_twenty_requests_estimates_are_right(
    words: float, images: float, fixed: int
) -> None:
    upstream = Counts(words, images, fixed)
    async with meeting(upstream, **UNTOUCHED) as met:
        early = await errors(met, upstream, 20)
        late = await errors(met, upstream, 40)

    print(  # noqa: T201
        f"\nwords x{words}, images x{images}, fixed {fixed}: "
        f"first {early[0]:.1%}, p95 after twenty {p95(late):.2%}, worst {max(late):.2%}"
    )
    assert p95(late) < 0.03


async def test_streams_with_usage_teach_and_streams_without_do_not() -> None:
    upstream = Counts(2.4, 0.8, 60)
    async with meeting(upstream, **UNTOUCHED) as met:
        untaught = await errors(met, upstream, 5, stream=True)
        usage = {"include_usage": True}
        taught = await errors(met, upstream, 30, stream=True, stream_options=usage)

    assert min(untaught) > 0.2
    assert p95(taught[20:]) < 0.03


async def test_what_was_learned_outlives_a_restart(tmp_path: Path) -> None:
    upstream = Counts(2.4, 0.8, 60)
    store = {"url": f"sqlite:///{tmp_path}/x.db"}
    async with fake_model(upstream) as model:
        async with (
            running_proxy(model.url, store=store, **UNTOUCHED) as proxy,
            raw_client(proxy) as client,
        ):
            before = await errors(Meeting(model, proxy, client), upstream, 25)
        async with (
            running_proxy(model.url, store=store, **UNTOUCHED) as proxy,
            raw_client(proxy) as client,
        ):
            after = await errors(Meeting(model, proxy, client), upstream, 5)
        async with running_proxy(model.url, **UNTOUCHED) as proxy, raw_client(proxy) as client:
            elsewhere = await errors(Meeting(model, proxy, client), upstream, 1)

    print(f"\nfirst {before[0]:.1%}, first after a restart {after[0]:.2%}")  # noqa: T201
    assert before[0] > 0.2
    assert max(after) < 0.03
    assert elsewhere[0] > 0.2


async def test_what_was_learned_is_written_while_the_proxy_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat_proxy.proxy.sizing.calibrations.WRITE_SECONDS", 0.01)
    upstream = Counts(2.4, 0.8, 60)
    store = {"url": f"sqlite:///{tmp_path}/x.db"}
    async with (
        fake_model(upstream) as model,
        running_proxy(model.url, store=store, **UNTOUCHED) as first,
        raw_client(first) as client,
    ):
        await errors(Meeting(model, first, client), upstream, 25)
        await asyncio.sleep(0.2)
        async with (
            running_proxy(model.url, store=store, **UNTOUCHED) as second,
            raw_client(second) as other,
        ):
            found = await errors(Meeting(model, second, other), upstream, 1)

    assert found[0] < 0.03


async def test_two_models_do_not_mix() -> None:
    dear, cheap = Counts(2.4, 2.0, 100), Counts(0.8, 0.6, 0)

    async def behave(received: Received, line: Line) -> None:
        await (dear if b'"dear"' in received.body else cheap)(received, line)

    async with meeting(behave, **UNTOUCHED) as met:
        for number in range(20):
            await errors(met, dear, 1, model="dear")
            assert len(dear.reported) == number + 1
            await errors(met, cheap, 1, model="cheap")
        late = await errors(met, dear, 20, model="dear")
        late += await errors(met, cheap, 20, model="cheap")

    assert p95(late) < 0.03


async def test_more_models_than_are_remembered_are_answered(
    monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    monkeypatch.setattr("chat_proxy.proxy.sizing.calibrations.REMEMBERED_MODELS", 1)
    upstream = Counts(2.4)
    async with meeting(upstream, **UNTOUCHED) as met:
        models = ["one", "two", "three"] * 2
        estimates = await asyncio.gather(
            *(estimate_of(met.proxy, model, "some words " * 500) for model in models)
        )

    assert len(estimates) == 6
    assert not said("request failed by a mistake in the proxy")


async def test_an_upstream_that_truncates_is_told_once_for_each_model(said: Said) -> None:
    upstream = Counts(window=1500)
    async with meeting(upstream, **UNTOUCHED) as met:
        for model in ("one", "two") * 3:
            await met.ask(model=model, messages=[{"role": "user", "content": "many words " * 4000}])
        estimate = await estimate_of(met.proxy, "one", "many words " * 4000)

    assert [line["model"] for line in said(TRUNCATES)] == ["one", "two"]
    assert said(TRUNCATES)[0]["prompt_tokens"] == 1500
    assert said(TRUNCATES)[0]["estimate"] > 8000
    assert estimate == said(TRUNCATES)[0]["estimate"]


async def estimate_of(proxy: Proxy, model: str, content: str) -> int:
    """Ask for an answer; return the estimate of the request."""
    async with raw_client(proxy) as client:
        messages = [{"role": "user", "content": content}]
        await client.send(chat_request(chat_body(model=model, messages=messages)))
        answer = await client.answer()
    return int(answer.headers["x-chat-proxy-tokens-before"])


NONSENSE = [
    {"prompt_tokens": 0},
    {"prompt_tokens": -5},
    {"prompt_tokens": 10**9},
    {"prompt_tokens": 2**70},
    {"prompt_tokens": 12.5},
    {"prompt_tokens": "1000"},
    {"prompt_tokens": True},
    {"prompt_tokens": []},
    {"total_tokens": 10},
    [],
    "many",
]


async def test_nonsense_teaches_nothing(said: Said) -> None:
    upstream = Counts()
    async with meeting(upstream, **UNTOUCHED) as met:
        estimates = {await estimate_of(met.proxy, "fake", "some words " * 500)}
        for usage in NONSENSE:
            upstream.usage = usage
            for _ in range(4):
                estimates.add(await estimate_of(met.proxy, str(usage), "some words " * 500))

    assert len(estimates) == 1
    assert not said(TRUNCATES)


async def test_refusals_teach_nothing() -> None:
    async def refuse(received: Received, line: Line) -> None:
        usage = {"prompt_tokens": 9000, "completion_tokens": 1}
        await answer_json(line, {"error": {"message": "no"}, "usage": usage}, 400)

    async with meeting(refuse) as met:
        estimates = [await estimate_of(met.proxy, "fake", "some words " * 500) for _ in range(5)]

    assert len(set(estimates)) == 1


async def test_the_metrics_compare_estimates_with_reports() -> None:
    upstream = Counts(1.3, 1.0, 20)
    async with meeting(upstream, **UNTOUCHED) as met:
        await errors(met, upstream, 30)
        estimated = met.figure("chat_proxy_estimated_tokens_total")
        near = met.figure('chat_proxy_estimate_ratio_bucket{le="1.03"}') - met.figure(
            'chat_proxy_estimate_ratio_bucket{le="0.97"}'
        )

        assert met.figure("chat_proxy_estimate_ratio_count") == 30
        assert near > 15
        assert 0.9 < estimated / sum(upstream.reported) < 1.1
