"""What a malicious tenant with a valid key does, each for as long as it is let."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from random import Random

from tests.support.live import RawClient, chat_request

MEBIBYTE = 1024 * 1024
BODY_BYTES = 720_000
HELD_SECONDS = 10.0
ANNOUNCED = [size for size in (32 * MEBIBYTE, MEBIBYTE, 65_536, 4_096, 512) for _ in range(16)]
"""Large ones first, then smaller ones for the gaps that they leave."""
PAUSE_SECONDS = 2.0
RANDOM = Random(22)


class Target:
    """The proxy under attack, and what it said."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self.header = f"authorization: Bearer {key}"
        self.statuses: dict[int, int] = {}
        self._clients: list[RawClient] = []

    async def connect(self) -> RawClient:
        """Open a connection, which is broken off at the latest when all are."""
        client = RawClient(*await asyncio.open_connection("127.0.0.1", self._port))
        self._clients = [it for it in self._clients if not it.writer.is_closing()]
        self._clients.append(client)
        return client

    async def leave(self) -> None:
        """Break all connections off."""
        for client in self._clients:
            client.leave()
        await asyncio.sleep(0.1)

    async def send(self, body: bytes, *headers: str, seconds: float = 10) -> None:
        """Send a chat and wait for its answer, but not for long."""
        client = await self.connect()
        try:
            async with asyncio.timeout(seconds):
                await client.send(chat_request(body, self.header, *headers))
                status = (await client.answer()).status
            self.statuses[status] = self.statuses.get(status, 0) + 1
        finally:
            client.leave()


def chat(model: str, content: object, **fields: object) -> bytes:
    """Return a chat whose model the fake one knows."""
    messages = [{"role": "user", "content": content}]
    return json.dumps({"model": model, "messages": messages, **fields}).encode()


def filled(unit: bytes, size: int = BODY_BYTES) -> bytes:
    """Return a list of as many units as make up a body."""
    return b"[" + b",".join([unit] * (size // (len(unit) + 1))) + b"]"


def with_metadata(model: str, value: bytes) -> bytes:
    """Return a chat with a field that nobody reads, but everybody parses."""
    return chat(model, "Hi")[:-1] + b',"metadata":' + value + b"}"


OBJECTS = with_metadata("silent", filled(b'{"a":0}'))
LISTS = with_metadata("silent", filled(b"[]", 300_000))
NESTED = with_metadata("silent", b"[" * 60 + filled(b"[[]]", 200_000) + b"]" * 60)
PARTS = chat("silent", "?").replace(b'"?"', filled(b"{}", 200_000))


async def announce(target: Target) -> None:
    """6: announce bodies that never come."""
    head = chat_request(b"", target.header)
    clients = []
    for size in ANNOUNCED:
        client = await target.connect()
        clients.append(client)
        length = b"content-length: %d" % size
        await client.send(head.replace(b"content-length: 0", length) + b"{")
    await asyncio.sleep(5)
    for client in clients:
        client.leave()


async def trickle(target: Target) -> None:
    """6: send a body byte by byte."""
    client = await target.connect()
    body = chat("fake", "x" * MEBIBYTE)
    await client.send(chat_request(body, target.header)[: -len(body)] + body[:500_000])
    for place in range(500_000, 500_200):
        await client.send(body[place : place + 1])
        await asyncio.sleep(0.02)
    client.leave()


async def provoke(target: Target) -> None:
    """7: ask for a model that answers 503."""
    await target.send(chat("busy", "Hi"))
    await asyncio.sleep(0.1)


async def probe(target: Target) -> None:
    """8, 9, 10: long texts that others may have sent, other credentials, the list of models."""
    words = " ".join(f"word{RANDOM.randrange(1000)}" for _ in range(4_000))
    await target.send(chat("fake", words), f"x-goog-api-key: {RANDOM.random()}")
    client = await target.connect()
    await client.send(f"GET /v1/models HTTP/1.1\r\nhost: proxy\r\n{target.header}\r\n\r\n".encode())
    await client.answer()
    client.leave()
    await asyncio.sleep(0.2)


async def fill_store(target: Target) -> None:
    """11: have long histories compacted, and their originals kept."""
    messages = []
    for number in range(6):
        text = "".join(f"line {number} {RANDOM.random()}\n" for _ in range(600))
        call = {"id": str(number), "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages += [
            {"role": "user", "content": f"Go on {number}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": str(number), "content": text},
        ]
    await target.send(json.dumps({"model": "fake", "messages": messages}).encode())
    await asyncio.sleep(0.5)


def fill_memory(body: bytes) -> Callable[[Target], Awaitable[None]]:
    """12: hold bodies that become large when they are parsed, for a model that never answers."""

    async def attack(target: Target) -> None:
        await target.send(body, seconds=HELD_SECONDS)
        await asyncio.sleep(PAUSE_SECONDS)

    return attack


ATTACKS: tuple[tuple[Callable[[Target], Awaitable[None]], int], ...] = (
    (announce, 1),
    (trickle, 16),
    (provoke, 4),
    (probe, 2),
    (fill_store, 1),
    (fill_memory(OBJECTS), 10),
    (fill_memory(LISTS), 10),
    (fill_memory(NESTED), 5),
    (fill_memory(PARTS), 1),
)
"""Each attack with how many do it at once."""


async def repeat(attack: Callable[[Target], Awaitable[None]], target: Target) -> None:
    """Go on until cancelled, whatever the proxy says to it."""
    for _ in count():
        with suppress(OSError, EOFError, TimeoutError):
            await attack(target)
