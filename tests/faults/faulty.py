"""Models that misbehave, and how to tell what came of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.fake_model import FakeModel, Line, Received, begin_stream, delta
from tests.support.figures import figure_in
from tests.support.live import Proxy, RawAnswer, RawClient
from tests.support.meeting import cut
from tests.support.wires.apis import CHAT, Api

WORD = delta("word ")
END = delta(finish_reason="stop")
QUICK = {"first_byte_timeout_seconds": 0.3, "idle_timeout_seconds": 0.3}
AT_ONCE_SECONDS = 0.25


def chats(model: FakeModel) -> list[Received]:
    """What the model was asked, but for its list of models."""
    return [r for r in model.requests if r.method == "POST"]


def metric(proxy: Proxy, name: str) -> float:
    """Return a figure by its name, with labels or without."""
    return figure_in(proxy.services.metrics.render().decode(), name)


def aborted(phase: str) -> str:
    """The figure of clients that left in this phase."""
    return f'chat_proxy_client_abort_total{{phase="{phase}"}}'


def answered(status: int, code: str = "", api: Api = CHAT) -> str:
    """The figure of chats with this status and error code."""
    route = api.path.partition("?")[0]
    labels = f'code="{code}",route="{route}",status="{status}"'
    return f"chat_proxy_requests_total{{{labels}}}"


def is_error(answer: RawAnswer, status: int, code: str, api: Api = CHAT) -> bool:
    """Tell whether an answer is ours, with this status and code, in all of its places."""
    return answer.status == status and api.is_error(answer.headers, answer.body, code)


def last_error(answer: RawAnswer, before: bytes, api: Api = CHAT) -> str:
    """Check that a stream is what came before and ends with one error; return its code."""
    assert answer.status == 200
    return api.last_error(answer.body, before)


async def chunks_to(client: RawClient) -> AsyncIterator[bytes]:
    """Yield the pieces of an answer as they come, to its end."""
    await client.reader.readuntil(b"\r\n\r\n")
    while size := int(await client.reader.readline(), 16):
        yield await client.reader.readexactly(size)
        await client.reader.readexactly(2)


def whole(status: str, body: bytes, *headers: str) -> bytes:
    """An answer of known length."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def large_json(size: int) -> bytes:
    """A JSON document of so many bytes."""
    return b'{"x":"' + b"y" * (size - 8) + b'"}'


def forget_the_peak() -> None:
    """Let the most memory that this process ever had be what it has now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_kilobytes() -> int:
    """The most memory this process had since that was forgotten."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


class Says:
    """Answers every chat with the same bytes, then closes, resets, or stays."""

    def __init__(self, *pieces: bytes, then: str = "") -> None:
        self._pieces = pieces
        self._then = then

    async def __call__(self, _: Received, line: Line) -> None:
        for piece in self._pieces:
            await line.send(piece)
            await asyncio.sleep(0.01)
        await end(line, self._then)


class Streams:
    """Streams these pieces in chunks, then ends the stream, closes, resets, or stays."""

    def __init__(self, *pieces: bytes, then: str = "end", pause: float = 0.01) -> None:
        self._pieces = pieces
        self._then = then
        self._pause = pause

    async def __call__(self, _: Received, line: Line) -> None:
        await begin_stream(line)
        for piece in self._pieces:
            await line.chunk(piece)
            await asyncio.sleep(self._pause)
        if self._then == "end":
            await line.chunk(b"")
        await end(line, self._then)


async def end(line: Line, how: str) -> None:
    """End a connection in one of the ways, or leave it open."""
    if how == "reset":
        cut(line)
    elif how == "close":
        line.writer.close()
    elif how == "stay":
        await line.until_closed()


class Waiting:
    """A model that answers as far as it is told, then waits until it is let go."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.asked = False
        self.let_go = False

    async def __call__(self, _: Received, line: Line) -> None:
        if self._pieces:
            await begin_stream(line)
        for piece in self._pieces:
            await line.chunk(piece)
        self.asked = True
        await line.until_closed()
        self.let_go = True
