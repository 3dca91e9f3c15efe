"""Group E: processes that die, are told to stop, or cannot start."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import cli
from app.serving.run import serve_here
from app.serving.workers import CANNOT_START, Workers
from app.telemetry.logs import configure_logging
from tests.support.command import Command, ask, run_command, running_command
from tests.support.fake_model import (
    Line,
    Received,
    begin_stream,
    delta,
    fake_model,
    on_chat,
    polite,
)
from tests.support.live import chat_body, eventually, settings

FAST: dict[str, Any] = {"SERVER_WORKERS": "2", "SERVER_DRAIN_GRACE_SECONDS": "0"}


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
    found = re.search(r'requests_total\{.*completions",status="200"\} (\d+)', text)
    return int(found[1]) if found else 0


async def chat(url: str, times: int) -> None:
    for _ in range(times):
        answer = await ask(f"{url}/v1/chat/completions", "POST", content=chat_body())
        assert answer.status_code == 200


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


@pytest.mark.anyio
async def test_workers_share_the_port_and_their_figures_and_a_dead_one_is_replaced() -> None:
    """E4: others keep serving; replaced within 5 s; SIGTERM stops them all."""
    async with (
        fake_model(polite) as model,
        running_command("serve", UPSTREAM_BASE_URL=model.url, **FAST) as command,
    ):
        await command.said("server started", times=2)
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
        await command.said("server started", times=3, seconds=5)
        replaced = time.monotonic() - began
        new = children_of(command)
        await expect_count(url, 13)

        began = time.monotonic()
        command.process.send_signal(signal.SIGTERM)
        code = await command.ended()
        stopped = time.monotonic() - began

    assert second in new
    assert first not in new
    assert len(new) == 2
    assert replaced < 5
    [line] = await command.said("worker died and is replaced")
    assert (line["pid"], line["exit_code"], line["level"]) == (first, -9, "warning")
    assert code == 0
    assert stopped < 4
    assert not any(is_alive(pid) for pid in new)


async def expect_count(url: str, count: int) -> None:
    """Wait for the figures of the other worker, which come every second."""
    async with asyncio.timeout(3):
        while await counted(url) != count:  # noqa: ASYNC110 - a process of its own has no Event
            await asyncio.sleep(0.1)


async def endless(received: Received, line: Line) -> None:
    await begin_stream(line)
    while True:
        await line.chunk(delta("word "))
        await asyncio.sleep(0.02)


@pytest.mark.anyio
async def test_a_second_sigterm_hurries_the_workers() -> None:
    """E2: the streams end with a frame, all within 2 s."""
    async with (
        fake_model(on_chat(endless)) as model,
        running_command(
            "serve", UPSTREAM_BASE_URL=model.url, SERVER_DRAIN_SECONDS="60", **FAST
        ) as command,
        httpx.AsyncClient(trust_env=False, verify=False, timeout=20) as client,
    ):
        await command.said("server started", times=2)
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
    assert seconds < 2.5


@pytest.mark.anyio
async def test_a_worker_that_cannot_start_stops_the_whole_with_a_clear_line() -> None:
    """E11: the parent could read the registry from its input, the workers cannot."""
    ended = await run_command("serve", typed=b"[]", **FAST, REGISTRY_FILE="/dev/stdin")

    assert ended.code == CANNOT_START
    assert "the configuration cannot be used any more" in ended.err
    assert "/dev/stdin: is not JSON" in ended.err
    assert "a worker could not start, so all are stopped" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.anyio
async def test_a_signal_before_the_workers_are_up_is_not_lost() -> None:
    async with running_command("serve", **FAST) as command:
        await eventually(lambda: len(children_of(command)) == 2, 10)
        workers = children_of(command)
        command.process.send_signal(signal.SIGTERM)
        code = await command.ended(10)

    assert code == 0
    assert not any(is_alive(pid) for pid in workers)


@pytest.mark.anyio
async def test_workers_do_not_outlive_their_parent() -> None:
    """Otherwise they would hold the port, and a new start would fail."""
    async with running_command("serve", **FAST) as command:
        await command.said("server started", times=2)
        workers = children_of(command)
        command.process.kill()
        seconds = await eventually(lambda: not any(is_alive(pid) for pid in workers), 5)

    assert len(workers) == 2
    assert seconds < 3


@pytest.mark.anyio
async def test_a_broken_stderr_does_not_stop_the_service() -> None:
    """E10: whoever read the log has gone."""
    async with (
        fake_model(polite) as model,
        running_command("serve", UPSTREAM_BASE_URL=model.url) as command,
    ):
        url = await command.url()
        command.process._transport.get_pipe_transport(2).close()  # type: ignore[attr-defined]
        await asyncio.sleep(0.05)
        await chat(url, 3)
        assert await counted(url) == 3


# In this process, so that the branches are seen


@pytest.fixture
def _log_as_before() -> Iterator[None]:
    yield
    configure_logging("error", "json", sys.stderr)


def test_workers_of_which_the_first_cannot_start_end_with_its_code(tmp_path: Path) -> None:
    workers = Workers(2, sys.exit, (CANNOT_START,), str(tmp_path))

    assert workers.run() == CANNOT_START


def test_workers_run_until_a_signal_and_handlers_are_put_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    workers = Workers(1, time.sleep, (60,), str(tmp_path))

    def kill_one_then_stop() -> None:
        while not workers._first:
            time.sleep(0.02)
        [process] = workers._first
        process.kill()
        while process in workers._processes or not workers._processes:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=kill_one_then_stop).start()

    assert workers.run() == 0
    assert signal.getsignal(signal.SIGTERM) is before


def interrupt_when_it_answers(url: str, number: int, answers: list[int]) -> None:
    """From another thread: ask until there is an answer, then send this process a signal."""

    def run() -> None:
        with httpx.Client(trust_env=False, verify=False) as client:
            while not answers:
                try:
                    answers.append(client.get(url).status_code)
                except httpx.TransportError:
                    time.sleep(0.02)
        os.kill(os.getpid(), number)

    threading.Thread(target=run).start()


@pytest.mark.usefixtures("_log_as_before")
def test_workers_serve_from_this_process_and_end_at_sigterm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name, value in {**FAST, "SERVER_PORT": str(port), "LOG_LEVEL": "error"}.items():
        monkeypatch.setenv(f"CHAT_PROXY_{name}", value)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    answers: list[int] = []

    interrupt_when_it_answers(f"http://127.0.0.1:{port}/metrics", signal.SIGTERM, answers)
    with pytest.raises(SystemExit) as left:
        cli.main(["serve"])

    assert left.value.code == 0
    assert answers == [200]


@pytest.mark.usefixtures("_log_as_before")
def test_a_configuration_that_went_bad_is_told_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "registry.json"
    file.write_text("{")

    with pytest.raises(SystemExit) as left, socket.create_server(("127.0.0.1", 0)) as listener:
        serve_here(settings(registry={"file": file}), {}, listener)

    assert left.value.code == CANNOT_START
    line = json.loads(capsys.readouterr().err)
    assert line["message"] == "the configuration cannot be used any more"
    assert line["reason"].startswith(f"{file}: is not JSON")


@pytest.mark.usefixtures("_log_as_before")
def test_the_demo_serves_in_this_process_and_ends_at_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("CHAT_PROXY_SERVER_PORT", str(port))
    monkeypatch.setenv("CHAT_PROXY_SERVER_HOST", "::1")
    answers: list[int] = []

    interrupt_when_it_answers(f"http://[::1]:{port}/v1/models", signal.SIGINT, answers)
    with pytest.raises(SystemExit) as left:
        cli.main(["demo", "--window", "1000"])

    assert left.value.code == 0
    assert answers == [200]
    assert (
        f"a 1000-token demo model behind the proxy at http://[::1]:{port}/v1"
        in capsys.readouterr().out
    )
