"""Row B22: answers that are compressed although nobody asked for it."""

import gzip
import json

import pytest

from tests.faults.faulty import Says, whole
from tests.journeys.summaries.troubles import history, troubled
from tests.support.fake_model import COMPLETION, Line, Received, begin_stream, delta, story
from tests.support.live import eventually
from tests.support.meeting import Stage
from tests.support.summary_model import Question

pytestmark = pytest.mark.anyio


async def test_b22_an_encoded_answer_passes_raw_with_its_header(stage: Stage) -> None:
    body = gzip.compress(json.dumps(COMPLETION).encode())
    encoded = whole("200 OK", body, "content-encoding: gzip", "content-type: application/json")
    async with stage(Says(encoded)) as they:
        answer = await they.ask()

    assert answer.body == body
    assert answer.headers["content-encoding"] == "gzip"
    assert {r.header("accept-encoding") for r in they.model.requests} == {"identity"}


async def test_b22_an_encoded_stream_passes_raw(stage: Stage) -> None:
    body = gzip.compress(b"".join(story()))

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line, "content-encoding: GZIP")
        await line.chunk(body[:20])
        await line.chunk(body[20:])
        await line.chunk(b"")

    async with stage(behave) as they:
        answer = await they.stream()

    assert answer.body == body


async def bomb(_: Question, line: Line) -> None:
    """Answer with a little that unpacks to a lot."""
    body = gzip.compress(b" " * 6_000_000 + json.dumps(COMPLETION).encode())
    await line.head(200, "content-encoding: gzip", f"content-length: {len(body)}")
    await line.send(body)


async def test_b22_a_side_query_refuses_a_bomb_undecoded() -> None:
    async with troubled(bomb) as trouble:
        answer = await trouble.ask(history())

        assert answer.headers["x-chat-proxy-compaction"] == "failed-open"
        assert trouble.is_unchanged
        assert trouble.kept == []


async def endless(_: Question, line: Line) -> None:
    """Write a summary that never ends."""
    await begin_stream(line)
    while True:
        await line.chunk(delta("x" * 65_536))


async def test_b22_a_side_query_reads_no_more_than_its_limit() -> None:
    async with troubled(endless) as trouble:
        answer = await trouble.ask(history())

        assert answer.headers["x-chat-proxy-compaction"] == "failed-open"
        assert trouble.is_unchanged
        await eventually(lambda: trouble.met.model.open_connections <= 2)
