"""A model server with behaviour on a real socket: it keeps its requests and misbehaves on cue."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Received:
    """A request as it arrived, byte for byte."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The header's first value."""
        return next((value for key, value in self.headers if key == name), None)


class Line:
    """One connection to the fake model, in the hands of its behaviour."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int = 200, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", *headers, "", ""]
        await self.send("\r\n".join(lines).encode("latin-1"))

    async def chunk(self, data: bytes) -> None:
        """Send a piece of a chunked body; an empty one ends it."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def reset(self) -> None:
        """Break the connection with a RST."""
        self.writer.transport.abort()

    async def until_closed(self) -> None:
        """Wait until the proxy lets go."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Behaviour = Callable[[Received, Line], Awaitable[None]]


@dataclass
class FakeModel:
    """Keeps every request and answers by its behaviour, which a test may change at any time."""

    behaviour: Behaviour
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        try:
            while (received := await read_request(reader)) is not None:
                self.requests.append(received)
                await self.behaviour(received, Line(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self.open_connections -= 1
            with suppress(AttributeError):  # asyncio cannot abort what is closed already
                writer.transport.abort()


async def read_request(reader: asyncio.StreamReader) -> Received | None:
    """Read one request, or nothing if the connection was closed between two."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    parted = (line.partition(":") for line in lines)
    headers = [(name.lower(), value.strip()) for name, _, value in parted]
    length = next((int(value) for name, value in headers if name == "content-length"), 0)
    return Received(method, target, headers, await reader.readexactly(length))


@asynccontextmanager
async def fake_model(
    behaviour: Behaviour, *, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakeModel]:
    """Run a fake model on a free loopback port."""
    model = FakeModel(behaviour)
    server = await asyncio.start_server(model.serve, "127.0.0.1", port, ssl=tls, limit=2**26)
    model.port = server.sockets[0].getsockname()[1]
    model.scheme = "https" if tls else "http"
    try:
        yield model
    finally:
        server.close()


COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "fake",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello from the fake model."},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 11, "completion_tokens": 6, "total_tokens": 17},
}
MODELS = {"object": "list", "data": [{"id": "fake", "object": "model", "max_model_len": 4096}]}


def event(document: object) -> bytes:
    """A server-sent event as vLLM writes it."""
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def delta(content: str | None = None, finish_reason: str | None = None) -> bytes:
    """A chunk of a streamed completion."""
    message = {"content": content} if content is not None else {}
    choice = {"index": 0, "delta": message, "logprobs": None, "finish_reason": finish_reason}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    return event({**head, "choices": [choice]})


DONE = b"data: [DONE]\n\n"
CHAT_PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


def story(words: int = 5) -> list[bytes]:
    """The events of a whole streamed answer."""
    return [*(delta(f"word{n} ") for n in range(words)), delta(finish_reason="stop"), DONE]


async def answer_json(line: Line, document: object, status: int = 200, *headers: str) -> None:
    """Answer with a JSON document of known length."""
    body = json.dumps(document).encode()
    await line.head(
        status, "content-type: application/json", f"content-length: {len(body)}", *headers
    )
    await line.send(body)


async def begin_stream(line: Line, *headers: str) -> None:
    """Begin a chunked event stream."""
    await line.head(200, "content-type: text/event-stream", "transfer-encoding: chunked", *headers)


async def polite(received: Received, line: Line) -> None:
    """Answer as a healthy server does: models, a completion, or a stream if one is asked for."""
    if received.target.startswith("/v1/models"):
        await answer_json(line, MODELS)
    elif b'"stream":true' in received.body.replace(b" ", b""):
        await begin_stream(line)
        for piece in story():
            await line.chunk(piece)
        await line.chunk(b"")
    else:
        await answer_json(line, COMPLETION)


def on_chat(behaviour: Behaviour) -> Behaviour:
    """Behave so for chats of any API and politely for everything else."""

    async def behave(received: Received, line: Line) -> None:
        if received.method == "POST" and received.target.startswith(CHAT_PATHS):
            await behaviour(received, line)
        else:
            await polite(received, line)

    return behave
