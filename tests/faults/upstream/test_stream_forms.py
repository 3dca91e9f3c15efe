"""Rows B15, B20 and B23: odd forms of good answers."""

import json

import pytest

from tests.faults.faulty import END, WORD, Says, Streams, whole
from tests.support.fake_model import COMPLETION, DONE, story
from tests.support.meeting import Stage

pytestmark = pytest.mark.anyio


async def test_b15_any_form_of_event_stream_passes_byte_for_byte(stage: Stage) -> None:
    odd = (
        b": a comment\r\n\r\nevent: x\nid: 7\nretry: 10\n"
        b'data:{"no":"space"}\n\ndata: several\ndata: lines\n\n\n\n'
        b'data: {"choices":[{"delta":{"content":"\xc3\xa4\xf0\x9f\x98\x80"}}]}\r\n\r\n\xff\xfe\n'
    )
    async with stage(Streams()) as they:
        for place in range(0, len(odd), 7):
            they.model.behaviour = Streams(odd[:place], odd[place:], END, DONE, pause=0.002)
            if place == 0:
                they.model.behaviour = Streams(odd, END, DONE)
            answer = await they.stream()
            assert answer.body == odd + END + DONE


async def test_b15_an_endless_line_passes_and_is_not_looked_at(stage: Stage) -> None:
    """More than the tap looks at."""
    line = b'data: {"x":"' + b"y" * 5_000_000 + b'"}\n\n'
    async with stage(Streams(WORD, line, pause=0)) as they:
        answer = await they.stream()

        assert answer.body == WORD + line
        assert they.figure("chat_proxy_sse_tap_off_total") == 1


async def test_b20_an_answer_of_the_other_kind_passes(stage: Stage) -> None:
    """Asked for a stream and got JSON, and the other way round."""
    body = json.dumps(COMPLETION).encode()
    json_answer = whole("200 OK", body, "content-type: application/json; charset=utf-8")
    async with stage(Says(json_answer)) as they:
        answer = await they.stream()
    async with stage(Streams(*story())) as they:
        streamed = await they.ask()

    assert answer.body == body
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert streamed.body == b"".join(story())
    assert streamed.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_b23_an_answer_that_ends_with_its_connection_passes(
    stage: Stage, version: str
) -> None:
    body = json.dumps(COMPLETION).encode()
    head = f"HTTP/{version} 200 OK\r\ncontent-type: application/json\r\n\r\n".encode()
    async with stage(Says(head, body[:20], body[20:], then="close")) as they:
        answer = await they.ask()

    assert answer.body == body
