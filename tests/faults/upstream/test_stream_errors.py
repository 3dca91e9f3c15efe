"""Row B11: errors that come as events."""

import json
from typing import Any

import pytest

from tests.faults.faulty import QUICK, Streams, last_error
from tests.support.fake_model import DONE, event
from tests.support.meeting import Stage, meeting
from tests.support.wires.apis import ALL, MESSAGES, RESPONSES, Api

pytestmark = pytest.mark.anyio


@ALL
async def test_b11_an_error_in_the_stream_passes_and_counts(stage: Stage, api: Api) -> None:
    async with stage(Streams(api.word, api.error), api) as they:
        answer = await they.stream()

        assert answer.body == api.word + api.error
        assert they.answered(200, "upstream_stream_error") == 1


@pytest.mark.parametrize("api", [RESPONSES, MESSAGES], ids=str)
@pytest.mark.parametrize("cut", [None, 5, 30])
async def test_b11_an_error_as_the_first_event_stays_in_a_stream_of_named_events(
    stage: Stage, api: Api, cut: int | None
) -> None:
    """Its clients read errors there; some servers begin a response before they refuse it."""
    pieces = [api.error] if cut is None else [api.error[:cut], api.error[cut:]]
    async with stage(Streams(*pieces), api) as they:
        answer = await they.stream()

        assert (answer.status, answer.body) == (200, api.error)
        assert answer.headers["content-type"] == "text/event-stream"
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


@ALL
async def test_b11_b12_an_error_that_stops_halfway_is_held_no_longer_than_a_ping(api: Api) -> None:
    half = api.error[:35]
    async with meeting(
        Streams(half, then="stay"), upstream=QUICK, server={"ping_seconds": 0.05}, api=api
    ) as they:
        answer = await they.stream()

    assert last_error(answer, half, api) == "upstream_idle_timeout"
