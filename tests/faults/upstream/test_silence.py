"""Rows B12 and B13: an upstream that says nothing, or nothing more."""

import asyncio

import pytest

from tests.faults.faulty import QUICK, Says, Streams, is_error, last_error, whole
from tests.support.fake_model import Line, Received, begin_stream
from tests.support.live import eventually
from tests.support.meeting import meeting
from tests.support.wires.apis import ALL, Api

pytestmark = pytest.mark.anyio


@ALL
async def test_b12_a_silent_stream_pings_and_then_answers(api: Api) -> None:

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line)
        await asyncio.sleep(0.25)
        for piece in api.story():
            await line.chunk(piece)
        await line.chunk(b"")

    async with meeting(behave, server={"ping_seconds": 0.1}, api=api) as they:
        answer = await they.stream()

    assert answer.body == api.ping * 2 + b"".join(api.story())


async def test_b12_pings_can_be_turned_off() -> None:
    async with meeting(Streams(then="stay"), upstream=QUICK, server={"ping_seconds": 0}) as they:
        answer = await they.stream()

    assert is_error(answer, 504, "upstream_first_byte_timeout")


@ALL
async def test_b12_silence_before_the_headers_is_a_504(api: Api) -> None:
    async with meeting(Says(then="stay"), upstream=QUICK, api=api) as they:
        answer = await they.stream()

        assert is_error(answer, 504, "upstream_first_byte_timeout", api)
        await eventually(lambda: they.model.open_connections <= 1)


@ALL
async def test_b12_silence_behind_the_headers_is_an_error_frame(api: Api) -> None:
    async with meeting(
        Streams(then="stay"), upstream=QUICK, server={"ping_seconds": 0.1}, api=api
    ) as they:
        answer = await they.stream()

    pings = api.ping * answer.body.count(api.ping)
    assert pings
    assert last_error(answer, pings, api) == "upstream_first_byte_timeout"


@ALL
async def test_b13_silence_in_mid_stream_is_an_error_frame(api: Api) -> None:
    async with meeting(Streams(api.word, then="stay"), upstream=QUICK, api=api) as they:
        answer = await they.stream()

        assert last_error(answer, api.word, api) == "upstream_idle_timeout"
        assert await eventually(lambda: they.model.open_connections <= 1) < 0.25


@ALL
async def test_b13_silence_in_mid_answer_is_a_504(api: Api) -> None:
    half = whole("200 OK", b'{"id":1}')[:-3]
    async with meeting(Says(half, then="stay"), upstream=QUICK, api=api) as they:
        answer = await they.ask()

    assert is_error(answer, 504, "upstream_idle_timeout", api)
