"""Row B31: what is sent a second time, and what must not be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from chat_proxy.upstream.client import Call, Upstream, UpstreamPolicy
from tests.faults.faulty import is_error, whole
from tests.support.clock import within
from tests.support.fake_model import Line, Received, polite
from tests.support.live import eventually
from tests.support.meeting import cut, meeting

pytestmark = pytest.mark.anyio

RETRIES = 'chat_proxy_retry_total{reason="reused_conn"}'
LARGE = b"x" * 21_000_000


@pytest.mark.parametrize("ending", ["reset", "close"])
async def test_b31_a_request_that_was_worked_on_is_not_sent_again(ending: str) -> None:
    """It may have been billed."""

    async def work_and_die(_: Received, line: Line) -> None:
        await asyncio.sleep(0.3)
        if ending == "reset":
            cut(line)
        line.writer.close()

    async with meeting(polite) as they:
        await they.ask()
        await eventually(lambda: not they.proxy.services.windows._tasks)
        connections, asked_before = they.model.connections, they.chats
        they.model.behaviour = work_and_die
        answer = await they.ask()

        assert is_error(answer, 502, "upstream_reset")
        assert they.chats == asked_before + 1
        assert they.model.connections == connections
        assert they.figure(RETRIES) == 0


@asynccontextmanager
async def deaf_after_one() -> AsyncIterator[str]:
    """An upstream that reads nothing after its first answer, and breaks that connection later."""
    first = asyncio.Event()
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_first = not first.is_set()
        first.set()
        await reader.readuntil(b"\r\n\r\n")
        writer.write(whole("200 OK", b"{}"))
        if is_first:
            await asyncio.sleep(0.5)
            cut(Line(reader, writer))
            return
        await over.wait()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        over.set()
        await asyncio.sleep(0.05)


async def test_b5_b31_a_request_that_was_never_sent_to_its_end_is_sent_again() -> None:
    """However long it took: nobody can have worked on a part of it."""
    upstream = Upstream(UpstreamPolicy(None, 1, 60, 0, 1))
    upstream.open()
    async with within(10), deaf_after_one() as url:
        first = await upstream.send(Call("POST", url, "/x", []))
        assert await first.read_some() == b"{}"
        first.release()
        second = await upstream.send(Call("POST", url, "/x", [], LARGE))
        second.release()

        assert (second.status, first.retried, second.retried) == (200, False, True)
        await upstream.close()
