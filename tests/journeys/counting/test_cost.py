"""What counting costs, as a share of what a request costs anyway."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.chat.body.request import read_request
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.tokens.overheads import rules_for
from tests.support.command import running_command
from tests.support.fake_model import COMPLETION, Line, Received, answer_json, fake_model, on_chat

PROSE = Path(__file__).read_text(encoding="utf-8") * 40
RULES = rules_for("Qwen/Qwen3-8B", "vllm")
TOOLS = [
    {"type": "function", "function": {"name": f"tool_{n}", "description": PROSE[n * 50 :][:500]}}
    for n in range(40)
]
CPU_SECONDS = "chat_proxy_process_cpu_seconds_total "
ALLOWED_RATIO = 2.5
ALLOWED_SHARE = 0.6
ROUNDS = 8
LIMITS = RequestLimits(max_depth=64, max_elements=500_000, max_messages=10_000, max_choices=16)


def history(messages: int, size: int) -> list[dict[str, Any]]:
    """A conversation of an agent: a third text, the rest tool calls and their results."""
    each = size // messages
    found: list[dict[str, Any]] = [{"role": "system", "content": PROSE[:each]}]
    while len(found) < messages:
        number = len(found)
        function = {"name": "read", "arguments": json.dumps({"path": PROSE[number:][: each // 2]})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        found += [
            {"role": "user", "content": PROSE[number * 7 :][:each]},
            {
                "role": "assistant",
                "content": PROSE[number * 3 :][: each // 2],
                "tool_calls": [call],
            },
            {"role": "tool", "tool_call_id": f"call_{number}", "content": PROSE[number:][:each]},
        ]
    return found


def talk(messages: int, size: int) -> list[dict[str, Any]]:
    """A conversation of nothing but texts."""
    roles = ("user", "assistant")
    each = size // messages
    return [
        {"role": roles[n % 2], "content": f"{n}: {PROSE[n * 7 :][:each]}"} for n in range(messages)
    ]


async def brief(_: Received, line: Line) -> None:
    await answer_json(line, COMPLETION)


class Process:
    """A proxy in a process of its own, and the CPU that it used by its own account."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def seconds(self) -> float:
        lines = (await self._client.get("/metrics")).text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(CPU_SECONDS))

    async def cost(self, bodies: list[bytes], mode: str) -> float:
        """Send the requests; return the CPU seconds that they took."""
        before = await self.seconds()
        headers = {"content-type": "application/json", "x-chat-proxy-mode": mode}
        for body in bodies:
            answer = await self._client.post("/v1/chat/completions", content=body, headers=headers)
            assert answer.status_code == 200
        return await self.seconds() - before


async def share_of_parsing(fields: dict[str, Any], tokenizers: Tokenizers) -> float:
    """Let the conversation grow by a message, again and again; compare the best of both."""
    parsing, counting = [], []
    beginnings = BodyPrefixes()
    for n in range(30):
        fields["messages"].append({"role": "user", "content": f"And what about {n}?"})
        body = orjson.dumps(fields)
        began = time.process_time()
        orjson.loads(body)
        parsed = time.process_time()
        request = read_request(body, LIMITS, beginnings)
        assert request.conversation is not None
        ready = time.process_time()
        await tokenizers.count(request, request.conversation, RULES)
        counting.append(time.process_time() - ready)
        parsing.append(parsed - began)
    return min(counting) / min(parsing)


@pytest.mark.anyio
@pytest.mark.usefixtures("_untraced")
@pytest.mark.parametrize(
    ("write", "more"),
    [(talk, {}), (history, {}), (history, {"tools": TOOLS})],
    ids=["texts", "an agent's", "an agent's, with tools behind"],
)
async def test_counting_one_more_message_costs_little_beside_parsing_them_all(
    write: Callable[[int, int], list[dict[str, Any]]], more: dict[str, Any]
) -> None:
    tokenizers = Tokenizers()
    await tokenizers.loaded(RULES.encoding)
    shares: list[float] = []
    while len(shares) < ROUNDS and min(shares, default=1) > ALLOWED_SHARE:
        fields = {"model": "fake", "messages": write(400, 500_000), **more}
        shares.append(await share_of_parsing(fields, tokenizers))
    await tokenizers.close()

    print(f"\ncounting / parsing = {min(shares):.2f}")  # noqa: T201
    assert min(shares) <= ALLOWED_SHARE


@pytest.mark.anyio
async def test_a_long_conversation_that_grows_costs_little_to_count() -> None:
    messages = history(400, 500_000)
    grown = [
        json.dumps(
            {"model": "fake", "messages": [*messages, {"role": "user", "content": f"And {n}?"}]},
            separators=(",", ":"),
        ).encode()
        for n in range(20)
    ]
    async with (
        fake_model(on_chat(brief)) as model,
        running_command(
            "serve",
            UPSTREAM_BASE_URL=model.url,
            STORE_URL="memory:",
            BUDGET_CONTEXT_WINDOW="1000000",
        ) as command,
        httpx.AsyncClient(base_url=await command.url(), trust_env=False, timeout=200) as client,
    ):
        process = Process(client)
        await process.cost(grown[:3], "on")
        rounds = [
            (await process.cost(grown, "on"), await process.cost(grown, "off")) for _ in range(5)
        ]

    counted, plain = min(rounds, key=lambda costs: costs[0] / costs[1])
    print(  # noqa: T201
        f"\n{len(grown[0]):,} bytes: {counted * 1000 / len(grown):.1f} ms of CPU counted, "
        f"{plain * 1000 / len(grown):.1f} ms not: {counted / plain:.2f} times"
    )
    assert counted / plain <= ALLOWED_RATIO
