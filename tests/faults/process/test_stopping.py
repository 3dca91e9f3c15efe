"""Row E1: SIGTERM while streams are open."""

import asyncio
import signal

import pytest

from tests.support.command import ask, running_command
from tests.support.fake_model import (
    DONE,
    Line,
    Received,
    begin_stream,
    delta,
    fake_model,
    on_chat,
)
from tests.support.live import RawClient, chat_body, chat_request
from tools.crowds.run import ProxyProcess, open_streams

pytestmark = pytest.mark.anyio

OF_EACH = 100
LONG = chat_request(chat_body(stream=True, user="long"))


class Telling:
    """A model that says a word and ends when it may; asked for a long story it never does."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def __call__(self, received: Received, line: Line) -> None:
        await begin_stream(line)
        await line.chunk(delta("word "))
        if b'"long"' in received.body:
            await line.until_closed()
        await self.may_end.wait()
        await line.chunk(delta(finish_reason="stop") + DONE)
        await line.chunk(b"")


async def rest_of(clients: list[RawClient]) -> list[bytes]:
    """What each of them still gets until its connection is closed."""
    async with asyncio.timeout(60):
        return list(await asyncio.gather(*(client.rest() for client in clients)))


async def until_nobody_listens(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return
            writer.transport.abort()
            await asyncio.sleep(0.05)


async def test_e1_of_two_hundred_streams_the_short_finish_and_the_long_are_told() -> None:
    telling = Telling()
    times = {"SERVER_DRAIN_GRACE_SECONDS": "1", "SERVER_DRAIN_SECONDS": "2"}
    async with (
        fake_model(on_chat(telling)) as model,
        running_command("serve", UPSTREAM_BASE_URL=model.url, **times) as command,
    ):
        port = int((await command.url()).rpartition(":")[2])
        proxy = ProxyProcess(command.process.pid, port, model)
        async with (
            open_streams(proxy, OF_EACH) as short,
            open_streams(proxy, OF_EACH, LONG) as long,
        ):
            command.process.send_signal(signal.SIGTERM)
            await command.said("server stopping")
            ready = await ask(f"{proxy.url}/readyz")
            await until_nobody_listens(port)
            telling.may_end.set()
            whole, cut = await rest_of(short), await rest_of(long)
        code = await command.ended()

    assert (ready.status_code, ready.json()) == (503, {"status": "stopping"})
    for body in whole:
        assert b"error" not in body
        assert body.endswith(DONE + b"\r\n0\r\n\r\n")
    for body in cut:
        assert body.count(b'"code":"server_shutting_down"') == 1
        assert body.endswith(DONE + b"\r\n0\r\n\r\n")
    assert code == 0
