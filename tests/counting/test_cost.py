"""What counting costs, as a share of what a request costs anyway."""

import json
import statistics
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.command import running_command
from tests.support.fake_model import COMPLETION, Line, Received, answer_json, fake_model, on_chat

PROSE = Path(__file__).read_text(encoding="utf-8") * 40
CPU_SECONDS = "chat_proxy_process_cpu_seconds_total "
ALLOWED_RATIO = 3.5


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
        running_command("serve", UPSTREAM_BASE_URL=model.url, STORE_URL="memory:") as command,
        httpx.AsyncClient(base_url=await command.url(), trust_env=False, timeout=30) as client,
    ):
        process = Process(client)
        await process.cost(grown[:3], "on")
        rounds = [
            (await process.cost(grown, "on"), await process.cost(grown, "off")) for _ in range(5)
        ]

    counted, plain = (statistics.median(costs) for costs in zip(*rounds, strict=True))
    print(  # noqa: T201
        f"\n{len(grown[0]):,} bytes: {counted * 1000 / len(grown):.1f} ms of CPU counted, "
        f"{plain * 1000 / len(grown):.1f} ms not: {counted / plain:.2f} times"
    )
    assert counted / plain < ALLOWED_RATIO
