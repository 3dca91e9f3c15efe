"""Clients that talk for ever: they append, leave at every bad moment, and check each answer."""

import asyncio
import re
import struct
from collections.abc import Callable
from random import Random
from socket import SO_LINGER, SOL_SOCKET

from tests.support.fake_model import DONE
from tests.support.live import RawAnswer, RawClient, chat_request
from tools.soak.books import Books
from tools.soak.conversations import Growing
from tools.soak.plan import NOBODY, Errand, Plan
from tools.soak.store_faults import StoreFaults

TENANTS = 40
_ENDS_WELL = re.compile(rb'"finish_reason":"stop"')
_ERROR = b'data: {"error"'


class SoakClient:
    """One client at a time on one connection at a time."""

    def __init__(self, port: int, plan: Plan, books: Books, random: Random) -> None:
        self._port = port
        self._plan = plan
        self._books = books
        self._random = random
        self._line: RawClient | None = None

    async def talk(
        self, goes_on: Callable[[], bool], pause_seconds: float, faults: StoreFaults
    ) -> None:
        """Hold one conversation after another."""
        while goes_on():
            growing = Growing(self._random)
            key = f"authorization: Bearer sk-{self._random.randrange(TENANTS)}"
            while goes_on() and growing.turns_left:
                growing.grow()
                if self._plan.store_fails():
                    faults.make()
                await self._go_on(self._plan.next_errand(), growing, key)
                await asyncio.sleep(self._random.uniform(0, pause_seconds))
        self._hang_up()

    async def _go_on(self, errand: Errand, growing: Growing, key: str) -> None:
        """Send a request; a connection that breaks is something to complain about."""
        try:
            await self._send(errand, growing, key)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            partial = getattr(error, "partial", b"")[:60]
            self._books.complain(f"{errand.request_id}: {error!r} {partial!r}")
            self._hang_up()
            self._books.left(errand)

    async def _send(self, errand: Errand, growing: Growing, key: str) -> None:
        model = NOBODY if errand.trouble == "refuse" else "fake"
        body = growing.body(model, stream=errand.streams)
        raw = chat_request(body, key, f"x-request-id: {errand.request_id}")
        line = await self._connected()
        self._books.begin(errand)
        if errand.is_abort:
            await self._abort(errand, line, raw, len(body))
            return
        await line.send(raw)
        answer = await line.answer()
        self._check(errand, answer)
        self._books.answered(errand, answer.status)
        if answer.headers.get("connection") == "close" or self._random.random() < 0.1:
            self._hang_up()

    async def _abort(self, errand: Errand, line: RawClient, raw: bytes, length: int) -> None:
        """Send what is sent before the client leaves, and leave."""
        whole = errand.trouble != "upload"
        await line.send(raw if whole else raw[: -length // 2])
        if errand.trouble == "reading":
            await line.reader.readuntil(b"word3")
        elif errand.trouble != "hurried":
            await asyncio.sleep(self._random.uniform(0.01, 0.2))
        self._hang_up()
        self._books.left(errand)

    def _check(self, errand: Errand, answer: RawAnswer) -> None:
        """Complain about an answer that passes for whole and is not."""
        if answer.status != 200:
            if answer.headers.get("content-type") != "application/json":
                self._books.complain(f"{errand.request_id}: an error that is no JSON")
            return
        if not errand.streams:
            return
        errors = answer.body.count(_ERROR)
        if not answer.body.endswith(DONE) or errors + bool(_ENDS_WELL.search(answer.body)) != 1:
            self._books.complain(f"{errand.request_id}: a stream that ends neither well nor ill")

    async def _connected(self) -> RawClient:
        if self._line is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
            self._line = RawClient(reader, writer)
        return self._line

    def _hang_up(self) -> None:
        """Close the connection, sometimes with a RST."""
        line, self._line = self._line, None
        if line is None:
            return
        if self._random.random() < 0.5:
            lingering = struct.pack("ii", 1, 0)
            line.writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, lingering)
        line.writer.transport.abort()
