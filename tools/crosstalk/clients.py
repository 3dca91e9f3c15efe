"""Clients of several tenants: each request has a canary of its own, and each answer is searched."""

import asyncio
import json
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tools.crosstalk.findings import Findings
from tools.crosstalk.upstream.server import ACTS, EARLY

TENANTS = 4
HUNG_SECONDS = 20
ABORT_SHARE = 0.15
PIPELINED_SHARE = 0.05
LONG_BYTES = 300_000
POLITE = "polite"
WITHOUT_BODY = (b"204", b"304")
_NO_LINGER = struct.pack("ii", 1, 0)


class Abort(StrEnum):
    """Where a client leaves."""

    IN_HEAD = "within the request's head"
    IN_BODY = "within the request's body"
    AT_ONCE = "after the request"
    WAITING = "while it waits"
    AFTER_HEAD = "after the answer's head"
    IN_ANSWER = "within the answer's body"
    HALF = "half: it sends an end and reads on"


BEFORE_SENT = (Abort.IN_HEAD, Abort.IN_BODY)


@dataclass(frozen=True)
class Request:
    """What one request says, and how its client leaves, if it does."""

    act: str
    canary: bytes
    head: bytes
    body: bytes
    abort: Abort | None = None


class Planner:
    """Draws requests; the same seed and client give the same requests."""

    def __init__(self, seed: int, number: int) -> None:
        self._dice = Random(seed * 1_000 + number)
        self._tenant = number % TENANTS
        self._number = number
        self._count = 0

    def requests(self) -> list[Request]:
        """Return what is sent next: a request, or two at once."""
        requests = [self.request()]
        if requests[0].abort is None and self._dice.random() < PIPELINED_SHARE:
            requests.append(self.request())
        return requests

    def request(self, act: str | None = None) -> Request:
        """Return the next request."""
        self._count += 1
        canary = f"cnry-{self._number:04x}{self._count:08x}"
        chosen = act or self._dice.choice(sorted(ACTS))
        is_long = chosen in EARLY
        path = "embeddings" if is_long else self._dice.choice(("chat/completions", "embeddings"))
        said = f"act={chosen} {canary}"
        fields: dict[str, object] = {"stream": path[0] == "c" and self._dice.random() < 0.5}
        fields["model"] = "fake"
        if path[0] == "c":
            fields["messages"] = [{"role": "user", "content": said}]
        else:
            fields["input"] = said + " x" * (self._dice.choice((0, LONG_BYTES // 2)) * is_long)
        body = json.dumps(fields).encode()
        lines = (
            *(f"POST /v1/{path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"),
            *(f"authorization: Bearer sk-tenant-{self._tenant}", f"content-length: {len(body)}"),
        )
        head = "\r\n".join([*lines, "", ""]).encode()
        leaves = act is None and self._dice.random() < ABORT_SHARE
        abort = self._dice.choice(list(Abort)) if leaves else None
        return Request(chosen, canary.encode(), head, body, abort)


class Client:
    """Sends one request after another over a kept connection, as long as it holds."""

    def __init__(self, port: int, planner: Planner, findings: Findings) -> None:
        self._port = port
        self.planner = planner
        self._dice = Random(port)
        self._findings = findings
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def talk(self) -> None:
        """Send the next request, or two at once, and search the answers."""
        await self.send(*self.planner.requests())

    async def send(self, *requests: Request) -> None:
        """Send requests without waiting in between; the last one may be broken off."""
        try:
            async with asyncio.timeout(HUNG_SECONDS):
                await self._send(requests)
        except TimeoutError:
            self._findings.hung(requests[-1])
            self.leave()
        except OSError as error:
            self._findings.complain(f"no connection to the proxy: {error}")
            await asyncio.sleep(1)

    async def _send(self, requests: tuple[Request, ...]) -> None:
        reader, writer = await self._connection()
        last = requests[-1]
        for request in requests[:-1]:
            writer.write(request.head + request.body)
        writer.write(self._part_of(last))
        for request in requests:
            if request.abort is None or request.abort not in BEFORE_SENT:
                self._findings.sent(request)
        with suppress(ConnectionError):
            await writer.drain()
        for request in requests:
            if not await self._answer(request, reader, writer):
                self.leave()
                break

    def _part_of(self, request: Request) -> bytes:
        """Return as much of a request as its client sends."""
        whole = request.head + request.body
        if request.abort is Abort.IN_HEAD:
            return request.head[: self._dice.randrange(len(request.head))]
        if request.abort is Abort.IN_BODY:
            return whole[: len(request.head) + self._dice.randrange(len(request.body))]
        return whole

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Read and search an answer; return whether the connection is still good."""
        abort = request.abort
        if abort in BEFORE_SENT or abort is Abort.AT_ONCE:
            return False
        if abort is Abort.WAITING:
            await asyncio.sleep(self._dice.uniform(0, 0.03))
            return False
        if abort is Abort.HALF:
            with suppress(OSError):
                writer.write_eof()
        raw, is_whole = await read_answer(reader, abort)
        self._findings.answered(request, raw, is_whole=is_whole)
        return is_whole and abort is None and b"\r\nconnection: close" not in raw.lower()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None or self._reader.at_eof():
            self.leave()
            opened = await asyncio.open_connection("127.0.0.1", self._port)
            self._reader, self._writer = opened
        return self._reader, self._writer

    def leave(self) -> None:
        """Close the connection, sometimes with a RST."""
        if self._writer is not None:
            connection: socket.socket | None = self._writer.get_extra_info("socket")
            if connection is not None and self._dice.random() < 0.5:
                with suppress(OSError):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._writer.transport.abort()
        self._reader = self._writer = None


async def read_answer(reader: asyncio.StreamReader, abort: Abort | None) -> tuple[bytes, bool]:
    """Return the bytes of an answer as they came, and whether they are whole."""
    pieces: list[bytes] = []
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        pieces.append(head)
        if abort is Abort.AFTER_HEAD or head[9:12] in WITHOUT_BODY:
            return head, abort is None
        if abort is Abort.IN_ANSWER:
            pieces.append(await reader.read(100))
            return b"".join(pieces), False
        await _read_body(head, reader, pieces)
    except asyncio.IncompleteReadError as error:
        return b"".join([*pieces, error.partial]), False
    except (ConnectionError, asyncio.LimitOverrunError):
        return b"".join(pieces), False
    return b"".join(pieces), True


async def _read_body(head: bytes, reader: asyncio.StreamReader, pieces: list[bytes]) -> None:
    _, has_length, rest = head.partition(b"\r\ncontent-length:")
    if has_length:
        pieces.append(await reader.readexactly(int(rest.partition(b"\r\n")[0])))
    elif b"\r\ntransfer-encoding: chunked" in head:
        size = -1
        while size:
            line = await reader.readuntil(b"\r\n")
            size = int(line, 16)
            pieces += [line, await reader.readexactly(size + 2)]
    else:
        pieces.append(await reader.read())
