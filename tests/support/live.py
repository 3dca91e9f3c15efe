"""The proxy on a real socket, in the test's own event loop; and a raw client that hides nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx

from chat_proxy.cli.serve import listen, server_of
from chat_proxy.config.settings import Settings
from chat_proxy.http.process.shutdown import GracefulServer
from chat_proxy.proxy.services import Services
from chat_proxy.server import create_app
from tests.support.clock import PATIENCE_SECONDS, own_time


@dataclass
class Proxy:
    """A running proxy."""

    port: int
    server: GracefulServer
    services: Services

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def settings(upstream_url: str = "http://127.0.0.1:1/v1", **sections: Any) -> Settings:
    """Settings for a test: its upstream, a fast stop, and sections as given."""
    sections["upstream"] = {"base_url": upstream_url, **sections.get("upstream", {})}
    server = {"port": 0, "drain_grace_seconds": 0, "drain_seconds": 5}
    sections["server"] = {**server, **sections.get("server", {})}
    sections.setdefault("registry", {"file": "/nonexistent/registry.json"})
    sections.setdefault("store", {"url": "memory:"})
    sections.setdefault("archive", {"files": False})
    sections.setdefault("tokens", {"ask_engine": False})  # most fakes know only how to chat
    return Settings(_env_file=None, **sections)


@asynccontextmanager
async def running_proxy(
    upstream_url: str, variables: Mapping[str, str] | None = None, **sections: Any
) -> AsyncIterator[Proxy]:
    """Run the proxy on a free port until the block ends."""
    chosen = settings(upstream_url, **sections)
    app = create_app(chosen, variables or {})
    server = server_of(app, chosen)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    task = asyncio.create_task(server._serve([listener]))
    while not server.started:
        await asyncio.sleep(0.001)
        if task.done():
            task.result()
    try:
        yield Proxy(port, server, app.state.services)
    finally:
        app.state.services.drain.interrupt_all()
        server.should_exit = True
        await task


@asynccontextmanager
async def http_client(proxy: Proxy, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """An ordinary client that knows nothing of proxies in the environment."""
    async with httpx.AsyncClient(
        base_url=proxy.url, trust_env=False, timeout=60, verify=False, **options
    ) as client:
        yield client


def chat_body(**fields: Any) -> bytes:
    """A small chat request."""
    document = {"model": "fake", "messages": [{"role": "user", "content": "Hi"}], **fields}
    return json.dumps(document).encode()


def chat_request(body: bytes = chat_body(), *headers: str) -> bytes:
    """A chat request as raw bytes."""
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "host: proxy",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1") + body


@dataclass
class RawAnswer:
    """An answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error in OpenAI's shape."""
        found = json.loads(self.body)["error"]
        assert set(found) == {"message", "type", "param", "code"}
        return dict(found)


class RawClient:
    """A TCP connection to the proxy that sends what it is told, byte for byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> RawAnswer:
        """Read one whole answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        parted = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in parted}
        return RawAnswer(int(first.split(" ")[1]), headers, await self._body(headers))

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") != "chunked":
            return await self.reader.read()
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return body

    async def rest(self) -> bytes:
        """Read until the proxy closes the connection."""
        with suppress(ConnectionError):
            return await self.reader.read()
        return b""

    def leave(self) -> None:
        """Go without a word: a RST."""
        self.writer.transport.abort()


@asynccontextmanager
async def raw_client(proxy: Proxy) -> AsyncIterator[RawClient]:
    """Connect to the proxy."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=2**26)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


async def eventually(condition: Any, seconds: float = PATIENCE_SECONDS) -> float:
    """Wait until the condition holds; return how long that took, fail if it never does.

    By the test's own clock: that of a machine on which nothing else runs.
    """
    loop = asyncio.get_running_loop()
    start, until = own_time(), loop.time() + seconds
    while not condition():
        assert loop.time() < until or own_time() - start < seconds, "it never happened"
        await asyncio.sleep(0.002)
    return own_time() - start
