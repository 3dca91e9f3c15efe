"""Row B10: `[DONE]`, and what stands behind it."""

import pytest

from tests.faults.faulty import WORD, Streams
from tests.support.clock import own_time
from tests.support.fake_model import DONE
from tests.support.live import eventually
from tests.support.meeting import Stage, meeting
from tests.support.wires.apis import ALL, MESSAGES, RESPONSES, Api

pytestmark = pytest.mark.anyio


async def test_b10_done_needs_no_finish_reason(stage: Stage) -> None:
    async with stage(Streams(WORD, DONE)) as they:
        answer = await they.stream()

    assert answer.body == WORD + DONE


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("tail", [b"", DONE, WORD, b"rubbish"])
async def test_b10_nothing_follows_done(stage: Stage, line_end: bytes, tail: bytes) -> None:
    done = b"data: [DONE]" + line_end * 2
    async with stage(Streams(WORD, done + tail)) as they:
        together = await they.stream()
    async with stage(Streams(WORD, done, *([tail] if tail else []))) as they:
        apart = await they.stream()

    assert together.body == apart.body == WORD + done


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
async def test_b10_done_is_understood_wherever_it_is_split(stage: Stage, line_end: bytes) -> None:
    done = b"data: [DONE]" + line_end * 2
    async with stage(Streams()) as they:
        for place in range(1, len(done)):
            streams = Streams(WORD, done[:place], done[place:] + DONE, pause=0.002)
            they.model.behaviour = streams
            answer = await they.stream()
            assert answer.body == WORD + done


@ALL
@pytest.mark.parametrize("ending", ["stay", "reset", "close"])
async def test_b10_what_happens_behind_the_end_is_nobody_s_problem(ending: str, api: Api) -> None:
    """The client has all it was to get, and is not kept waiting for more."""
    async with meeting(Streams(*api.story(), then=ending), api=api) as they:
        start = own_time()
        answer = await they.stream()
        seconds = own_time() - start

        assert answer.body == b"".join(api.story())
        assert seconds < 1
        assert they.answered(200) == 1
        await eventually(lambda: they.model.open_connections <= 1)


@pytest.mark.parametrize("api", [RESPONSES, MESSAGES], ids=str)
@pytest.mark.parametrize("tail", [DONE, b": bye\n\n", b"rubbish"])
async def test_b10_what_a_server_of_named_events_adds_behind_the_last_one_passes(
    stage: Stage, api: Api, tail: bytes
) -> None:
    """Some write `[DONE]` there too."""
    async with stage(Streams(*api.story(), tail), api) as they:
        answer = await they.stream()

    assert answer.body == b"".join([*api.story(), tail])


@ALL
async def test_b10_a_connection_serves_again_after_a_stream(api: Api) -> None:
    async with meeting(Streams(*api.story()), api=api) as they:
        for _ in range(5):
            await they.stream()

    assert they.model.connections <= 2  # one of them asked for the models
