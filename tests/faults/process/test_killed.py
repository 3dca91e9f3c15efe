"""Row E3: kill -9 while the proxy writes."""

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest

from tests.support.clock import Stopwatch
from tests.support.command import ask, running_command
from tests.support.fake_model import fake_model, polite
from tests.support.live import chat_body, eventually

pytestmark = pytest.mark.anyio


async def chat(url: str, text: str) -> int:
    body = chat_body(messages=[{"role": "user", "content": text}])
    return (await ask(f"{url}/v1/chat/completions", "POST", content=body)).status_code


async def chat_for_ever(url: str, name: int, answers: list[int]) -> None:
    """Give the store something new to write again and again, until nobody answers."""
    number = 0
    with suppress(httpx.TransportError):
        while True:
            answers.append(await chat(url, f"{name} asks {number}"))
            number += 1


def assert_whole(file: Path) -> None:
    """Nothing is broken in the file, and nothing half written lies beside it."""
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
    beside = {path.name.removeprefix(file.name) for path in file.parent.iterdir()}
    assert beside <= {"", "-wal", "-shm", ".secret"}


async def test_e3_a_proxy_killed_in_mid_write_is_ready_again_as_quickly_as_ever(
    tmp_path: Path,
) -> None:
    file = tmp_path / "chat-proxy.db"
    answers: list[int] = []
    async with fake_model(polite) as model:
        chosen = {"UPSTREAM_BASE_URL": model.url, "STORE_URL": f"sqlite:///{file}"}
        async with running_command("serve", **chosen) as command:
            watch = Stopwatch(command.process.pid)
            url = await command.url()
            first_start = watch.own()
            clients = [asyncio.create_task(chat_for_ever(url, n, answers)) for n in range(4)]
            await eventually(lambda: len(answers) >= 20)
            command.process.kill()
            await asyncio.gather(*clients)
        async with running_command("serve", **chosen) as command:
            watch = Stopwatch(command.process.pid)
            url = await command.url()
            second_start = watch.own()
            ready = await ask(f"{url}/readyz")
            status = await chat(url, "again")

    assert set(answers) == {200}
    assert second_start < 2 + 2 * first_start
    assert ready.json() == {"status": "ready"}
    assert status == 200
    assert_whole(file)
