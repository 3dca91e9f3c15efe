"""Row B11: errors that come as events."""

import json
from typing import Any

import pytest

from tests.faults.faulty import QUICK, WORD, Streams, last_error
from tests.support.fake_model import DONE, event
from tests.support.meeting import Stage, meeting

pytestmark = pytest.mark.anyio


async def test_b11_an_error_in_the_stream_passes_and_counts(stage: Stage) -> None:
    error = event({"error": {"message": "engine died", "code": 500}})
    async with stage(Streams(WORD, error)) as they:
        answer = await they.stream()

        assert answer.body == WORD + error
        assert they.answered(200, "upstream_stream_error") == 1


@pytest.mark.parametrize(
    ("code", "status"),
    [(400, 400), ("429", 429), (503, 503), (None, 500), (200, 500), (True, 500), ("bad", 500)],
)
async def test_b11_an_error_as_the_first_event_becomes_a_real_status(
    stage: Stage, code: Any, status: int
) -> None:
    document = {"error": {"message": "no", "type": "x", "param": None, "code": code}}
    async with stage(Streams(event(document), DONE)) as they:
        answer = await they.stream()

    assert answer.status == status
    assert json.loads(answer.body) == document
    assert answer.headers["content-type"] == "application/json"
    assert "x-chat-proxy-error" not in answer.headers


async def test_b11_an_error_as_the_first_event_may_come_in_pieces(stage: Stage) -> None:
    error = event({"error": {"message": "no", "code": 400}})
    async with stage(Streams(error[:20], error[20:])) as they:
        answer = await they.stream()

    assert answer.status == 400


@pytest.mark.parametrize("line", [b'data: {"error"}\n\n', b'data: {"error": "half'])
async def test_b11_an_error_that_cannot_be_read_passes_as_it_is(stage: Stage, line: bytes) -> None:
    async with stage(Streams(line)) as they:
        answer = await they.stream()

    assert (answer.status, answer.body) == (200, line)


async def test_b11_b12_an_error_that_stops_halfway_is_held_no_longer_than_a_ping() -> None:
    half = b'data: {"error": {"mess'
    async with meeting(
        Streams(half, then="stay"), upstream=QUICK, server={"ping_seconds": 0.05}
    ) as they:
        answer = await they.stream()

    assert last_error(answer, half) == "upstream_idle_timeout"
