"""Rows B8 and B9: streams that break or just end."""

import asyncio
import time

import pytest

from tests.faults.faulty import END, WORD, Says, Streams, chunks_to, last_error
from tests.support.fake_model import DONE, Line, Received, begin_stream, story
from tests.support.live import chat_body, chat_request
from tests.support.meeting import Stage, cut, meeting

pytestmark = pytest.mark.anyio


async def test_b8_a_reset_stream_keeps_every_byte_and_ends_with_an_error(stage: Stage) -> None:
    async with stage(Streams(WORD, WORD, then="reset")) as they:
        answer = await they.stream()

    assert last_error(answer, WORD * 2) == "upstream_reset"


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_b8_data_that_arrive_together_with_the_end_are_not_lost(
    stage: Stage, ending: str
) -> None:
    """Readers that see the error first would drop what came before it."""
    async with stage(Streams(WORD, *[WORD] * 20, then=ending, pause=0)) as they:
        answer = await they.stream()

    assert last_error(answer, WORD * 21) == "upstream_reset"


async def test_b8_an_error_stands_in_an_event_of_its_own(stage: Stage) -> None:
    """Behind half a line, and behind a line whose event is still open."""
    for half in (b'data: {"choi', b'data: {"choices":[]}\n', b'data: {"choices":[]}\r\n'):
        async with stage(Streams(WORD, half, then="reset")) as they:
            answer = await they.stream()

        assert last_error(answer, WORD + half) == "upstream_reset"
        assert answer.body.removeprefix(WORD + half).startswith(b"\n\n")


@pytest.mark.parametrize("rubbish", [b"zz\r\nrubbish\r\n", b"5\r\nabcdefgh\r\n"])
async def test_b8_broken_framing_in_mid_stream_is_told_at_once(
    stage: Stage, rubbish: bytes
) -> None:
    """Not only when the idle limit is over."""

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line)
        await line.chunk(WORD)
        await asyncio.sleep(0.02)
        await line.send(rubbish)
        await line.until_closed()

    async with stage(behave) as they:
        start = time.perf_counter()
        answer = await they.stream()
        seconds = time.perf_counter() - start

    before = WORD + b"abcde" if b"abcde" in rubbish else WORD
    assert last_error(answer, before) == "upstream_invalid_response"
    assert seconds < 1


async def test_b9_a_stream_that_just_ends_is_truncated(stage: Stage) -> None:
    async with stage(Streams(WORD)) as they:
        answer = await they.stream()

        assert last_error(answer, WORD) == "upstream_truncated"
        assert they.figure("chat_proxy_stream_truncated_total") == 1


async def test_b9_a_stream_with_a_finish_reason_needs_no_done(stage: Stage) -> None:
    async with stage(Streams(WORD, END)) as they:
        answer = await they.stream()

    assert answer.body == WORD + END


async def test_b9_b12_a_stream_that_ends_behind_a_ping_is_truncated() -> None:

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line)
        await asyncio.sleep(0.15)
        await line.chunk(b"")

    async with meeting(behave, server={"ping_seconds": 0.1}) as they:
        answer = await they.stream()

    assert last_error(answer, b": ping\n\n") == "upstream_truncated"


async def test_b8_b15_an_error_behind_an_endless_line_begins_a_new_event(stage: Stage) -> None:
    line_bytes = b'data: {"x":"' + b"y" * 2_000_000
    all_arrived = asyncio.Event()

    async def break_off_then(received: Received, line: Line) -> None:
        await begin_stream(line)
        await line.chunk(WORD)
        await line.chunk(line_bytes)
        await all_arrived.wait()
        cut(line)

    body = b""
    async with asyncio.timeout(20), stage(break_off_then) as they:
        await they.client.send(chat_request(chat_body(stream=True)))
        async for piece in chunks_to(they.client):
            body += piece
            if len(body) == len(WORD + line_bytes):
                all_arrived.set()

    frame = body.removeprefix(WORD + line_bytes)
    assert frame.startswith(b'\n\ndata: {"error"')
    assert b'"upstream_reset"' in frame
    assert frame.endswith(DONE)


async def test_b8_b22_a_reset_in_an_encoded_stream_breaks_the_connection(stage: Stage) -> None:
    """No frame can be written into compressed bytes."""

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line, "content-encoding: gzip")
        await line.chunk(b"\x1f\x8b")
        await asyncio.sleep(0.02)
        cut(line)

    async with stage(behave) as they:
        await they.client.send(chat_request(chat_body(stream=True)))
        everything = await they.client.rest()

    assert everything.endswith(b"\x1f\x8b\r\n")


@pytest.mark.parametrize(("events", "is_cut"), [(story(), False), (story()[:2], True)])
async def test_b9_b23_a_stream_that_ends_with_its_connection_needs_an_end_of_its_own(
    stage: Stage, events: list[bytes], is_cut: bool
) -> None:
    head = b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    async with stage(Says(head, *events, then="close")) as they:
        answer = await they.stream()

    if is_cut:
        assert last_error(answer, b"".join(events)) == "upstream_truncated"
    else:
        assert answer.body == b"".join(events)
