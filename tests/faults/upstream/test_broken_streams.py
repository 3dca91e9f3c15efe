"""Rows B8 and B9: streams that break or just end."""

import asyncio

import pytest

from tests.faults.faulty import END, WORD, Says, Streams, chunks_to, last_error
from tests.support.clock import own_time, within
from tests.support.fake_model import DONE, Line, Received, begin_stream
from tests.support.live import chat_body, chat_request
from tests.support.meeting import Stage, cut, meeting
from tests.support.wires.apis import ALL, MESSAGES, RESPONSES, Api

pytestmark = pytest.mark.anyio


@ALL
async def test_b8_a_reset_stream_keeps_every_byte_and_ends_with_an_error(
    stage: Stage, api: Api
) -> None:
    async with stage(Streams(api.word, api.word, then="reset"), api) as they:
        answer = await they.stream()

    assert last_error(answer, api.word * 2, api) == "upstream_reset"


@ALL
@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_b8_data_that_arrive_together_with_the_end_are_not_lost(
    stage: Stage, ending: str, api: Api
) -> None:
    """Readers that see the error first would drop what came before it."""
    async with stage(Streams(api.word, *[api.word] * 20, then=ending, pause=0), api) as they:
        answer = await they.stream()

    assert last_error(answer, api.word * 21, api) == "upstream_reset"


@ALL
async def test_b8_an_error_stands_in_an_event_of_its_own(stage: Stage, api: Api) -> None:
    """Behind half a line, and behind a line whose event is still open."""
    for half in (b'data: {"choi', b'data: {"choices":[]}\n', b'data: {"choices":[]}\r\n'):
        async with stage(Streams(api.word, half, then="reset"), api) as they:
            answer = await they.stream()

        assert last_error(answer, api.word + half, api) == "upstream_reset"
        assert answer.body.removeprefix(api.word + half).startswith(b"\n\n")


@ALL
@pytest.mark.parametrize("rubbish", [b"zz\r\nrubbish\r\n", b"5\r\nabcdefgh\r\n"])
async def test_b8_broken_framing_in_mid_stream_is_told_at_once(
    stage: Stage, rubbish: bytes, api: Api
) -> None:
    """Not only when the idle limit is over."""

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line)
        await line.chunk(api.word)
        await asyncio.sleep(0.02)
        await line.send(rubbish)
        await line.until_closed()

    async with stage(behave, api) as they:
        start = own_time()
        answer = await they.stream()
        seconds = own_time() - start

    before = api.word + b"abcde" if b"abcde" in rubbish else api.word
    assert last_error(answer, before, api) == "upstream_invalid_response"
    assert seconds < 1


@ALL
async def test_b9_a_stream_that_just_ends_is_truncated(stage: Stage, api: Api) -> None:
    async with stage(Streams(api.word), api) as they:
        answer = await they.stream()

        assert last_error(answer, api.word, api) == "upstream_truncated"
        assert they.figure("chat_proxy_stream_truncated_total") == 1


async def test_b9_a_stream_with_a_finish_reason_needs_no_done(stage: Stage) -> None:
    async with stage(Streams(WORD, END)) as they:
        answer = await they.stream()

    assert answer.body == WORD + END


@ALL
async def test_b9_b12_a_stream_that_ends_behind_a_ping_is_truncated(api: Api) -> None:

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line)
        await asyncio.sleep(0.15)
        await line.chunk(b"")

    async with meeting(behave, server={"ping_seconds": 0.1}, api=api) as they:
        answer = await they.stream()

    assert last_error(answer, api.ping, api) == "upstream_truncated"


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
    async with within(20), stage(break_off_then) as they:
        await they.client.send(chat_request(chat_body(stream=True)))
        async for piece in chunks_to(they.client):
            body += piece
            if len(body) == len(WORD + line_bytes):
                all_arrived.set()

    frame = body.removeprefix(WORD + line_bytes)
    assert frame.startswith(b'\n\ndata: {"error"')
    assert b'"upstream_reset"' in frame
    assert frame.endswith(DONE)


@ALL
async def test_b8_b22_a_reset_in_an_encoded_stream_breaks_the_connection(
    stage: Stage, api: Api
) -> None:
    """No frame can be written into compressed bytes."""

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line, "content-encoding: gzip")
        await line.chunk(b"\x1f\x8b")
        await asyncio.sleep(0.02)
        cut(line)

    async with stage(behave, api) as they:
        await they.client.send(api.http(api.body(stream=True)))
        everything = await they.client.rest()

    assert everything.endswith(b"\x1f\x8b\r\n")


@ALL
@pytest.mark.parametrize("is_cut", [False, True])
async def test_b9_b23_a_stream_that_ends_with_its_connection_needs_an_end_of_its_own(
    stage: Stage, api: Api, is_cut: bool
) -> None:
    events = api.story()[:2] if is_cut else api.story()
    head = b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    async with stage(Says(head, *events, then="close"), api) as they:
        answer = await they.stream()

    if is_cut:
        assert last_error(answer, b"".join(events), api) == "upstream_truncated"
    else:
        assert answer.body == b"".join(events)


@pytest.mark.parametrize("api", [RESPONSES, MESSAGES], ids=str)
async def test_b9_named_events_need_the_last_one(stage: Stage, api: Api) -> None:
    """A reason to stop is none."""
    pieces = api.story()[:-1]
    async with stage(Streams(*pieces), api) as they:
        answer = await they.stream()

    assert last_error(answer, b"".join(pieces), api) == "upstream_truncated"
