"""A forwarder between the proxy and the server: it keeps what the model really got, and when."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.fake_model import Line, Received, answer_json, fake_model
from tools.engine.client.wires import CHAT, FORMS
from tools.small_model.exchanges import Exchange

_FORMS = {form.path: form for form in FORMS}
_LISTING = "/v1/models"
_SECONDS_BETWEEN_LOOKS = 0.05
_OF_ONE_CONNECTION = frozenset({"host", "content-length", "connection", "transfer-encoding"})


@dataclass
class Recorder:
    """Passes every request on to a server and keeps its chats, in the order of their arrival."""

    client: httpx.AsyncClient
    exchanges: list[Exchange] = field(default_factory=list)
    url: str = ""
    hides_listing: bool = False
    """Whether the list of models, which tells the window, cannot be had."""

    async def __call__(self, received: Received, line: Line) -> None:
        """Pass on one request; a caller that leaves takes its request with it."""
        now = asyncio.get_running_loop().time
        path = received.target.partition("?")[0]
        exchange = Exchange(_document(received), received.header("x-chat-proxy-purpose"), now())
        exchange.form = _FORMS.get(path, CHAT)
        if path in _FORMS:
            self.exchanges.append(exchange)
        if path == _LISTING and self.hides_listing:
            await answer_json(line, {"detail": "Not Found"}, 404)
            return
        forwarded = asyncio.create_task(self._forward(received, line, exchange))
        left = asyncio.create_task(_left(line))
        try:
            await asyncio.wait({forwarded, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            exchange.ended = now()
            tasks = (forwarded, left)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        if results[0] is not None:
            line.reset()

    def close(self) -> None:
        """End what the server still works on: nobody waits for it any more."""
        now = asyncio.get_running_loop().time()
        for exchange in self.exchanges:
            exchange.ended = exchange.ended or now

    async def count(self, text: str) -> int:
        """Return the server's own count of a text's tokens."""
        answer = await self.client.post("/tokenize", json={"content": text})
        return len(answer.raise_for_status().json()["tokens"])

    async def _forward(self, received: Received, line: Line, exchange: Exchange) -> None:
        headers = [pair for pair in received.headers if pair[0] not in _OF_ONE_CONNECTION]
        async with self.client.stream(
            received.method, received.target, headers=headers, content=received.body
        ) as answer:
            exchange.status = answer.status_code
            kind = answer.headers.get("content-type", "application/json")
            head = (f"content-type: {kind}", "transfer-encoding: chunked")
            await line.head(answer.status_code, *head)
            async for piece in answer.aiter_raw():
                exchange.began = exchange.began or asyncio.get_running_loop().time()
                exchange.answer += piece
                await line.chunk(piece)
            await line.chunk(b"")


@asynccontextmanager
async def recording(server_url: str) -> AsyncIterator[Recorder]:
    """Run a recorder before a server until the block ends."""
    # The server closes idle connections: each request has one of its own.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(
        base_url=server_url, trust_env=False, timeout=300, limits=limits
    ) as client:
        recorder = Recorder(client)
        async with fake_model(recorder) as front:
            recorder.url = front.url
            yield recorder
        recorder.close()


async def _left(line: Line) -> None:
    """Return when the caller has closed its connection."""
    while not line.reader.at_eof():  # noqa: ASYNC110 - reading would take the next request away
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)


def _document(received: Received) -> dict[str, Any]:
    with suppress(json.JSONDecodeError):
        found = json.loads(received.body)
        return found if isinstance(found, dict) else {}
    return {}
