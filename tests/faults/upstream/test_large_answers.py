"""Row B21: answers without end."""

import pytest

from tests.faults.faulty import (
    Says,
    forget_the_peak,
    is_error,
    large_json,
    peak_kilobytes,
    whole,
)
from tests.support.fake_model import Line, Received, delta
from tests.support.live import RawClient, chat_body, chat_request, eventually
from tests.support.meeting import Stage, meeting

pytestmark = pytest.mark.anyio


async def test_b21_a_large_answer_is_poured_through(stage: Stage) -> None:
    body = large_json(20_000_000)
    async with stage(Says(whole("200 OK", body))) as they:
        answer = await they.ask()

    assert answer.body == body


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_b21_pouring_takes_no_more_memory_the_longer_it_lasts(kind: str) -> None:
    async def pour(received: Received, line: Line) -> None:
        await line.head(200, f"content-type: {kind}", "transfer-encoding: chunked")
        piece = delta("y" * 1_000_000)
        for _ in range(60):
            await line.chunk(piece)
        await line.chunk(b"")

    async with meeting(pour, limits={"max_answer_bytes": 10**9}) as they:
        await they.client.send(chat_request(chat_body(stream=kind != "application/json")))
        await read_bytes(they.client, 20_000_000)
        forget_the_peak()
        before = peak_kilobytes()
        await read_bytes(they.client, 40_000_000)
        grown = peak_kilobytes() - before

    assert grown < 10_000


async def read_bytes(client: RawClient, size: int) -> None:
    """Read so much and keep none of it."""
    while size > 0:
        size -= len(await client.reader.read(min(size, 1_000_000)))


async def test_b21_an_answer_over_the_limit_breaks_the_connection() -> None:
    """The answer has begun, so nobody may take it for whole."""
    body = large_json(12_000_000)
    async with meeting(
        Says(whole("200 OK", body)), limits={"max_answer_bytes": 10_000_000}
    ) as they:
        await they.client.send(chat_request())
        everything = await they.client.rest()

        assert b"200 OK" in everything
        assert len(everything) < 10_500_000
        assert not everything.endswith(b"0\r\n\r\n")
        await eventually(lambda: they.answered(200, "upstream_response_too_large") == 1)


async def test_b21_an_answer_over_a_small_limit_is_a_502() -> None:
    """Nothing has been sent yet."""
    async with meeting(
        Says(whole("200 OK", large_json(200_000))), limits={"max_answer_bytes": 100_000}
    ) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_response_too_large")
