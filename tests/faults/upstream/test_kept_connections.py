"""Rows B29, B33: what lies in a connection before a request is written is not its answer."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from chat_proxy.errors import UpstreamReset
from chat_proxy.http.write_batch import write_batch_of
from chat_proxy.upstream.client import Call, Upstream, UpstreamPolicy
from tests.faults.faulty import whole
from tests.support.clock import PATIENCE_SECONDS
from tests.support.fake_model import FakeModel, Line, Received, fake_model, polite

pytestmark = pytest.mark.anyio

ROUNDS = 500
UNASKED = whole("200 OK", b"another's")


@dataclass
class Kept:
    """A client whose upstream echoes what it is asked; the last connection is in our hands."""

    upstream: Upstream
    model: FakeModel
    lines: list[Line] = field(default_factory=list)

    async def __call__(self, received: Received, line: Line) -> None:
        self.lines.append(line)
        await line.send(whole("200 OK", received.body))

    async def ask(self, body: bytes) -> tuple[bytes, bool]:
        """Return the answer, and whether the request was sent twice."""
        call = Call("POST", self.model.url, "/chat/completions", [], body)
        reply = await self.upstream.send(call)
        said = b""
        while piece := await reply.read_some():
            said += piece
        reply.release()
        return said, reply.retried

    def speak(self, data: bytes) -> None:
        """Let the upstream send at once, while the loop has no turn to read it."""
        os.write(self._descriptor(), data)

    def end(self) -> None:
        """Let the upstream close its side at once."""
        with socket.socket(fileno=os.dup(self._descriptor())) as same:
            same.shutdown(socket.SHUT_WR)

    def _descriptor(self) -> int:
        return int(self.lines[-1].writer.get_extra_info("socket").fileno())


@asynccontextmanager
async def keeping() -> AsyncIterator[Kept]:
    upstream = Upstream(UpstreamPolicy(None, 1, 60, 0, 1))
    async with fake_model(polite) as model:
        model.behaviour = kept = Kept(upstream, model)
        upstream.open()
        await kept.ask(b"first")
        yield kept
        await upstream.close()


async def test_b29_an_answer_that_came_before_the_request_reaches_nobody() -> None:
    async with keeping() as they:
        answers = set()
        for number in range(ROUNDS):
            they.speak(UNASKED)
            answers.add((await they.ask(b"%d" % number))[0])

        assert answers == {b"%d" % number for number in range(ROUNDS)}
        assert len(they.model.requests) == ROUNDS + 1


async def test_b29_an_answer_that_came_while_the_request_was_held_reaches_nobody() -> None:
    """Requests of one iteration of the loop are held to be written together."""
    async with keeping() as they:
        write_batch_of(asyncio.get_running_loop()).wake()
        asking = asyncio.create_task(they.ask(b"own"))
        await asyncio.sleep(0)
        they.speak(UNASKED)

        assert await asking == (b"own", False)
        assert [request.body for request in they.model.requests] == [b"first", b"own"]


async def test_b5_b29_an_end_that_came_before_the_request_is_no_retry() -> None:
    """Nothing was written to the closed connection."""
    async with keeping() as they:
        they.end()

        assert await they.ask(b"own") == (b"own", False)
        assert they.model.connections == 2


async def test_b33_an_answer_on_a_new_connection_before_its_first_request_reaches_nobody() -> None:
    upstream = Upstream(UpstreamPolicy(None, 1, 60, 0, 1))
    upstream.open()
    batch = write_batch_of(asyncio.get_running_loop())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        batch.wake()
        asking = asyncio.create_task(upstream.send(Call("POST", url, "/x", [], b"own")))
        while not batch._writes:  # noqa: ASYNC110 - to the very iteration of the loop
            await asyncio.sleep(0)
        line = listener.accept()[0]
        line.sendall(UNASKED)

        with pytest.raises(UpstreamReset):
            await asking
        assert nothing_came(line)
        await upstream.close()


def nothing_came(line: socket.socket) -> bool:
    """Return whether the other side has closed without a byte."""
    with line:
        line.settimeout(PATIENCE_SECONDS)
        try:
            return line.recv(1) == b""
        except ConnectionResetError:
            return True
