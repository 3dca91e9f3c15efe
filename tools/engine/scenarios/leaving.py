"""Clients that leave: the engine must stop working for them."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx

from tools.engine.client.asking import Asker, asking_through_the_proxy
from tools.engine.client.talk import SYSTEM, Talk
from tools.engine.findings import Finding, at_least, none_of, told
from tools.engine.serving import WINDOW, Engine

TIMES = 10
LONGEST = WINDOW - 200


async def disconnects(engine: Engine) -> list[Finding]:
    """Leave streams after their first bytes, and whole answers before they come."""
    waits: list[float] = []
    made = "vllm:generation_tokens_total"
    before = await engine.figure(made)
    async with asking_through_the_proxy(engine) as asker:
        for number in range(TIMES):
            await (_leave_a_stream if number % 2 else _leave_a_wait)(asker, engine, number)
            waits.append(await _until(engine, lambda running: running == 0))
        alive = await asker.ask([SYSTEM, *Talk(13).question()])
    spared = 1 - (await engine.figure(made) - before) / (TIMES * LONGEST)
    return [
        told("clients that left, half of them mid-stream", TIMES),
        none_of("… still running in the engine (`vllm:num_requests_running`)",
                await engine.figure("vllm:num_requests_running")),
        told("… seconds until it had stopped, at most", f"{max(waits):.2f}"),
        at_least("… tokens that it did not have to make", round(100 * spared), 50, " %"),
        Finding("the next request", str(alive.status), "200", alive.status == 200),
    ]  # fmt: skip


def _long(asker: Asker, number: int, **fields: Any) -> dict[str, Any]:
    messages = [SYSTEM, *Talk(100 + number).question()]
    body = {"model": asker.model, "messages": messages, "max_tokens": LONGEST}
    return {**body, "ignore_eos": True, **fields}


async def _leave_a_stream(asker: Asker, _: Engine, number: int) -> None:
    body = _long(asker, number, stream=True)
    async with asker.client.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for _chunk in answer.aiter_bytes():
            break


async def _leave_a_wait(asker: Asker, engine: Engine, number: int) -> None:
    """Hang up as soon as the engine works on it."""
    async with httpx.AsyncClient(base_url=asker.client.base_url, trust_env=False) as client:
        waiting = asyncio.create_task(
            client.post("/v1/chat/completions", json=_long(asker, number), timeout=60)
        )
        await _until(engine, lambda running: running > 0 or waiting.done())
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _until(engine: Engine, is_so: Callable[[float], bool]) -> float:
    """Watch how many requests the engine works on; return after how many seconds it was so."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(1_000):
        if is_so(await engine.figure("vllm:num_requests_running")):
            break
        await asyncio.sleep(0.02)
    return loop.time() - began
