"""The upstream and its summary model as adversaries; everything they said is on tape."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256

from tests.support.fake_model import (
    COMPLETION,
    DONE,
    MODELS,
    Line,
    Received,
    answer_json,
    begin_stream,
    event,
    read_request,
    story,
)
from tests.support.meeting import cut
from tests.support.summary_model import (
    Question,
    Telling,
    after,
    answer,
    calling,
    chosen,
    empty,
    endless,
    garbage,
    hostile,
    only_thinking,
    overflow,
    refusing,
    written,
)

LIMIT = 1_100
"""The tokens from which an upstream that overflows does so; below the trigger."""


@dataclass
class Tape:
    """A request as it came, and what was said to it."""

    received: Received
    status: int = 0
    body: bytes = b""
    is_whole: bool = False

    @property
    def request_id(self) -> str:
        return self.received.header("x-request-id") or ""

    @property
    def tenant(self) -> str:
        return (self.received.header("authorization") or "").removeprefix("Bearer ")


def mark_of(tenant: str) -> str:
    """A word that stands in every summary written for a tenant, and nowhere else."""
    return f"mark{sha256(tenant.encode()).hexdigest()[:12]}"


class Upstream:
    """A server with moods, on one port that it may leave and take again."""

    def __init__(self) -> None:
        self.mood = "healthy"
        self.summary_mood = "good"
        self.tapes: list[Tape] = []
        self.side_queries: list[Tape] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._lines: set[Line] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def is_busy(self) -> bool:
        """Whether somebody is connected."""
        return bool(self._lines)

    async def listen(self) -> None:
        """Take its port."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def leave(self) -> None:
        """Leave the port: whoever comes is refused, and nobody's connection stays."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for line in list(self._lines):
            line.reset()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        self._lines.add(line)
        try:
            while (received := await read_request(reader)) is not None:
                await self._answer(received, line)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._lines.discard(line)
            line.reset()

    async def _answer(self, received: Received, line: Line) -> None:
        if not received.target.startswith("/v1/chat/completions"):
            await answer_json(line, MODELS)
            return
        question, tape = Question(received), Tape(received)
        if question.is_summary:
            self.side_queries.append(tape)
            await SUMMARY_MOODS[self.summary_mood](question, line)
        else:
            self.tapes.append(tape)
            await MOODS[self.mood](question, line, tape)


Behaving = Callable[[Question, Line, Tape], Awaitable[None]]


async def healthy(question: Question, line: Line, tape: Tape) -> None:
    tape.status, tape.is_whole = 200, True
    if question.fields.get("stream"):
        await _stream(line, tape, [*story(3)[:-1], event({"choices": []}), DONE])
        await line.chunk(b"")
    else:
        await _json(line, tape, {**COMPLETION, "usage": _usage(question)})


async def resets(question: Question, line: Line, tape: Tape) -> None:
    """Break the connection before the first byte."""
    cut(line)


async def breaks_off(question: Question, line: Line, tape: Tape) -> None:
    """Break the connection in the middle of the answer."""
    tape.status = 200
    if question.fields.get("stream"):
        await _stream(line, tape, story(3)[:2])
    else:
        await line.head(200, "content-type: application/json", "content-length: 900")
        await line.send(b'{"id": ')
    await asyncio.sleep(0.005)
    cut(line)


async def truncates(question: Question, line: Line, tape: Tape) -> None:
    """End an answer that is not complete, as if it were."""
    tape.status = 200
    if question.fields.get("stream"):
        await _stream(line, tape, story(3)[:3])
        await line.chunk(b"")
    else:
        await line.head(200, "content-type: application/json", "content-length: 900")
        await line.send(b'{"id": ')
        line.writer.close()


async def overflows(question: Question, line: Line, tape: Tape) -> None:
    """Refuse what is too long, in vLLM's words."""
    if question.tokens < LIMIT:
        await healthy(question, line, tape)
    else:
        tape.status, tape.is_whole = 400, True
        await _json(line, tape, overflow(LIMIT), 400)


async def limits(question: Question, line: Line, tape: Tape) -> None:
    tape.status, tape.is_whole = 429, True
    await _json(line, tape, {"error": {"message": "Slow down."}}, 429)


async def fails(question: Question, line: Line, tape: Tape) -> None:
    tape.status, tape.is_whole = 500, True
    tape.body = b"<html>out of order</html>"
    await line.head(500, "content-type: text/html", f"content-length: {len(tape.body)}")
    await line.send(tape.body)


async def babbles(question: Question, line: Line, tape: Tape) -> None:
    """Answer well, with something that is no answer."""
    tape.status = 200
    body = b"<html>hello</html>"
    await line.head(200, "content-type: text/html", f"content-length: {len(body)}")
    await line.send(body)


MOODS: dict[str, Behaving] = {
    behave.__name__: behave
    for behave in (healthy, resets, breaks_off, truncates, overflows, limits, fails, babbles)
}


async def good(question: Question, line: Line) -> None:
    """Write a summary that has the tenant's mark in it."""
    mark = mark_of(Tape(question.received).tenant)
    await answer(question, line, written([*chosen(question), f"the {mark} was seen"]))


SUMMARY_MOODS: dict[str, Telling] = {
    "good": good,
    "slow": after(0.5, good),
    **{it.__name__: it for it in (calling, empty, endless, garbage, hostile, only_thinking)},
    "refusing": refusing,
}


async def _stream(line: Line, tape: Tape, pieces: list[bytes]) -> None:
    await begin_stream(line)
    for piece in pieces:
        tape.body += piece
        await line.chunk(piece)


async def _json(line: Line, tape: Tape, document: object, status: int = 200) -> None:
    tape.body = json.dumps(document).encode()
    await answer_json(line, document, status)


def _usage(question: Question) -> dict[str, int]:
    tokens = question.tokens
    return {"prompt_tokens": tokens, "completion_tokens": 6, "total_tokens": tokens + 6}
