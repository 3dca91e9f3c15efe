"""Rows B12 and B13: an upstream that says nothing, or nothing more."""

import asyncio

import pytest

from tests.faults.faulty import QUICK, WORD, Says, Streams, is_error, last_error, whole
from tests.support.fake_model import Line, Received, begin_stream, story
from tests.support.live import eventually
from tests.support.meeting import meeting

pytestmark = pytest.mark.anyio


async def test_b12_a_silent_stream_pings_and_then_answers() -> None:

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line)
        await asyncio.sleep(0.25)
        for piece in story():
            await line.chunk(piece)
        await line.chunk(b"")

    async with meeting(behave, server={"ping_seconds": 0.1}) as they:
        answer = await they.stream()

    assert answer.body == b": ping\n\n" * 2 + b"".join(story())


async def test_b12_pings_can_be_turned_off() -> None:
    async with meeting(Streams(then="stay"), upstream=QUICK, server={"ping_seconds": 0}) as they:
        answer = await they.stream()

    assert is_error(answer, 504, "upstream_first_byte_timeout")


async def test_b12_silence_before_the_headers_is_a_504() -> None:
    async with meeting(Says(then="stay"), upstream=QUICK) as they:
        answer = await they.stream()

        assert is_error(answer, 504, "upstream_first_byte_timeout")
        await eventually(lambda: they.model.open_connections <= 1)


async def test_b12_silence_behind_the_headers_is_an_error_frame() -> None:
    async with meeting(Streams(then="stay"), upstream=QUICK, server={"ping_seconds": 0.1}) as they:
        answer = await they.stream()

    pings = answer.body[: answer.body.index(b"data:")]
    assert set(pings.split(b"\n\n")) == {b": ping", b""}
    assert last_error(answer, pings) == "upstream_first_byte_timeout"


async def test_b13_silence_in_mid_stream_is_an_error_frame() -> None:
    async with meeting(Streams(WORD, then="stay"), upstream=QUICK) as they:
        answer = await they.stream()

        assert last_error(answer, WORD) == "upstream_idle_timeout"
        assert await eventually(lambda: they.model.open_connections <= 1) < 0.25


async def test_b13_silence_in_mid_answer_is_a_504() -> None:
    half = whole("200 OK", b'{"id":1}')[:-3]
    async with meeting(Says(half, then="stay"), upstream=QUICK) as they:
        answer = await they.ask()

    assert is_error(answer, 504, "upstream_idle_timeout")
