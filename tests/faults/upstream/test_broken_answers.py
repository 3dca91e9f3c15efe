"""Rows B6, B7 and B26: answers that break, or are not what they announce."""

import asyncio
import json

import pytest

from tests.faults.faulty import Says, is_error, large_json, whole
from tests.support.clock import within
from tests.support.fake_model import COMPLETION, Line, Received, answer_json, polite
from tests.support.live import chat_request
from tests.support.meeting import Stage, cut, meeting
from tests.support.wires.apis import ALL, Api

pytestmark = pytest.mark.anyio


@ALL
async def test_b6_a_reset_in_the_headers_is_told_and_not_sent_again(stage: Stage, api: Api) -> None:
    """It may have been billed."""
    async with stage(Says(b"HTTP/1.1 200 OK\r\ncontent-", then="reset"), api) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_reset", api)
    assert they.chats == 1


@pytest.mark.parametrize("ending", ["reset", "close"])
async def test_b6_a_connection_broken_before_any_byte_is_not_tried_again_when_fresh(
    stage: Stage,
    ending: str,
) -> None:
    async with stage(Says(then=ending)) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_reset")
    assert they.chats == 1


@ALL
@pytest.mark.parametrize("ending", ["reset", "close"])
async def test_b7_b26_half_an_answer_is_never_a_short_one(
    stage: Stage, ending: str, api: Api
) -> None:
    """A length that does not hold."""
    half = whole("200 OK", json.dumps(api.whole).encode())[:-10]
    async with stage(Says(half, then=ending), api) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_reset", api)


async def test_b7_half_an_answer_on_another_path_breaks_the_connection() -> None:
    """Nobody takes it for a whole one."""

    async def half(received: Received, line: Line) -> None:
        await line.head(200, "content-type: audio/mpeg", "transfer-encoding: chunked")
        await line.chunk(b"half")
        await asyncio.sleep(0.05)
        cut(line)

    async with within(10), meeting(polite) as they:
        they.model.behaviour = half
        await they.client.send(
            b"POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
        )
        await they.client.reader.readuntil(b"half\r\n")
        rest = await they.client.rest()

    assert rest == b""


async def test_b7_b23_a_reset_is_no_end_of_an_answer_without_length(stage: Stage) -> None:
    """The bytes look whole, the connection says they are not."""
    body = json.dumps(COMPLETION).encode()
    head = b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n"
    async with stage(Says(head, body, then="reset")) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_reset")


async def test_b7_a_reset_in_a_large_answer_breaks_the_connection(stage: Stage) -> None:
    body = large_json(12_000_000)
    async with stage(Says(whole("200 OK", body)[:-1000], then="reset")) as they:
        await they.client.send(chat_request())
        everything = await they.client.rest()

    assert not everything.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("status", [204, 205, 304])
async def test_b26_an_answer_without_a_body_is_none(stage: Stage, status: int) -> None:
    head = f"HTTP/1.1 {status} X\r\n" + ("content-length: 0\r\n" if status == 205 else "")
    async with stage(Says(head.encode() + b"\r\n")) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_invalid_response")


async def test_b26_more_bytes_than_announced_reach_nobody() -> None:
    """Neither this client nor the next one."""
    says = Says(whole("200 OK", b'{"a":1}') + whole("200 OK", b'{"stolen":1}'))
    async with meeting(says) as they:
        first = await they.ask()
        they.model.behaviour = Says(whole("200 OK", b'{"b":1}'))
        second = await they.ask()

    assert first.body == b'{"a":1}' or first.status == 502
    assert second.body == b'{"b":1}'


async def test_b26_an_answer_nobody_asked_for_reaches_nobody() -> None:
    """It arrives while the connection lies idle, and would be the next client's."""

    async def behave(received: Received, line: Line) -> None:
        await answer_json(line, {"a": 1})
        await asyncio.sleep(0.05)
        await answer_json(line, {"stolen": 1})

    async with meeting(behave) as they:
        await they.ask()
        await asyncio.sleep(0.1)
        they.model.behaviour = Says(whole("200 OK", b'{"b":1}'))
        second = await they.ask()

        assert second.body == b'{"b":1}'
        assert they.figure('chat_proxy_retry_total{reason="reused_conn"}') == 0
