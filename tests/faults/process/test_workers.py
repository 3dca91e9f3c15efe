"""Rows E2 and E4: workers that die, are told to stop, or lose their parent."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.command import Command, ask, running_command
from tests.support.fake_model import (
    Line,
    Received,
    begin_stream,
    delta,
    fake_model,
    on_chat,
    polite,
)
from tests.support.live import chat_body, eventually

pytestmark = pytest.mark.anyio

FAST: dict[str, Any] = {
    "SERVER_WORKERS": "2",
    "SERVER_DRAIN_SECONDS": "3600",
    "SERVER_DRAIN_GRACE_SECONDS": "0",
    "MODE": "off",
}


def children_of(command: Command) -> list[int]:
    """The workers' process ids."""
    pid = command.process.pid
    names = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    spawned = (int(name) for name in names)
    return [
        child for child in spawned if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def is_alive(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


async def counted(url: str) -> int:
    """How many chat requests /metrics has, of all workers."""
    text = (await ask(f"{url}/metrics")).text
    found = re.search(r'requests_total\{[^}]*completions",status="200"[^}]*\} (\d+)', text)
    return int(found[1]) if found else 0


async def chat(url: str, times: int) -> None:
    for _ in range(times):
        answer = await ask(f"{url}/v1/chat/completions", "POST", content=chat_body())
        assert answer.status_code == 200


async def seconds_to_start(command: Command) -> float:
    """Wait for the workers; how long that takes says how busy the machine is."""
    began = time.monotonic()
    await command.said("server started", times=2)
    return time.monotonic() - began


def soon(start: float) -> float:
    """Return seconds that are many for what takes few, and far from the hour of a drain.

    The rules are 5 s for a new worker, 4 s for a stop, 3 s without a parent, 2 s when hurried.
    """
    return 20 + 5 * start


async def only(pid: int, others: list[int], step: Callable[[], Awaitable[None]]) -> None:
    """Do something while all workers but one are held."""
    held = [other for other in others if other != pid]
    for other in held:
        os.kill(other, signal.SIGSTOP)
    try:
        await step()
    finally:
        for other in held:
            os.kill(other, signal.SIGCONT)


async def test_e4_workers_share_port_and_figures_and_a_dead_one_is_replaced() -> None:
    """Others keep serving, its death is counted, and SIGTERM stops them all."""
    async with (
        fake_model(polite) as model,
        running_command("serve", UPSTREAM_BASE_URL=model.url, **FAST) as command,
    ):
        start = await seconds_to_start(command)
        url = await command.url()
        first, second = workers = children_of(command)
        for pid in workers:
            await only(pid, workers, lambda: chat(url, 5))
        await expect_count(url, 10)
        for pid in workers:
            await only(pid, workers, lambda: expect_count(url, 10))

        os.kill(first, signal.SIGKILL)
        began = time.monotonic()
        await chat(url, 3)
        await command.said("server started", times=3)
        replaced = time.monotonic() - began
        new = children_of(command)
        await expect_count(url, 13)
        deaths = (await ask(f"{url}/metrics")).text

        began = time.monotonic()
        command.process.send_signal(signal.SIGTERM)
        code = await command.ended()
        stopped = time.monotonic() - began

    assert "chat_proxy_worker_deaths_total 1.0" in deaths
    assert second in new
    assert first not in new
    assert len(new) == 2
    assert replaced < soon(start)
    [line] = await command.said("worker died and is replaced")
    assert (line["pid"], line["exit_code"], line["level"]) == (first, -9, "warning")
    assert code == 0
    assert stopped < soon(start)
    assert not any(is_alive(pid) for pid in new)


async def expect_count(url: str, count: int) -> None:
    """Wait for the figures of the other worker, which come every second."""
    async with asyncio.timeout(200):
        while await counted(url) != count:  # noqa: ASYNC110 - a process of its own has no Event
            await asyncio.sleep(0.1)


async def endless(received: Received, line: Line) -> None:
    await begin_stream(line)
    while True:
        await line.chunk(delta("word "))
        await asyncio.sleep(0.02)


async def test_e2_a_second_sigterm_hurries_the_workers() -> None:
    """The streams end with a frame, though they might go on for the hour of the drain."""
    async with (
        fake_model(on_chat(endless)) as model,
        running_command("serve", UPSTREAM_BASE_URL=model.url, **FAST) as command,
        httpx.AsyncClient(trust_env=False, verify=False, timeout=200) as client,
    ):
        start = await seconds_to_start(command)
        url = await command.url()
        body = chat_body(stream=True)
        async with client.stream("POST", f"{url}/v1/chat/completions", content=body) as answer:
            pieces = answer.aiter_raw()
            await anext(pieces)
            command.process.send_signal(signal.SIGTERM)
            await command.said("server stopping", times=2)
            await asyncio.sleep(0.3)
            assert command.process.returncode is None
            began = time.monotonic()
            command.process.send_signal(signal.SIGTERM)
            rest = b"".join([piece async for piece in pieces])
        code = await command.ended()
        seconds = time.monotonic() - began

    assert b'"code":"server_shutting_down"' in rest
    assert rest.endswith(b"data: [DONE]\n\n")
    assert code == 0
    assert seconds < soon(start)


async def test_e4_a_signal_before_the_workers_are_up_is_not_lost() -> None:
    async with running_command("serve", **FAST) as command:
        await eventually(lambda: len(children_of(command)) == 2, 200)
        workers = children_of(command)
        command.process.send_signal(signal.SIGTERM)
        code = await command.ended()

    assert code == 0
    assert not any(is_alive(pid) for pid in workers)


async def test_e4_workers_do_not_outlive_their_parent() -> None:
    """Otherwise they would hold the port, and a new start would fail."""
    async with running_command("serve", **FAST) as command:
        start = await seconds_to_start(command)
        workers = children_of(command)
        command.process.kill()
        seconds = await eventually(lambda: not any(is_alive(pid) for pid in workers), 200)

    assert len(workers) == 2
    assert seconds < soon(start)
