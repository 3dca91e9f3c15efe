"""A stream of Responses that breaks ends for OpenAI's own client as an answer that failed."""

from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.support.fake_model import Line, Received, begin_stream
from tests.support.meeting import meeting
from tests.support.wires.apis import RESPONSES, named

pytestmark = pytest.mark.anyio

ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress"}
PLACE = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
PART = {"type": "output_text", "text": "", "annotations": []}
BEGINNING = (
    {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "content": []}},
    {"type": "response.content_part.added", **PLACE, "part": PART},
    {"type": "response.output_text.delta", **PLACE, "delta": "Hel", "logprobs": []},
)


async def break_off(_: Received, line: Line) -> None:
    """Begin a response, and die in mid-sentence."""
    await begin_stream(line)
    for event in (*RESPONSES.story()[:1], *map(named, BEGINNING)):
        await line.chunk(event)
    line.reset()


async def test_the_failed_response_is_the_one_that_began() -> None:
    """The client raises an error of its own where another response fails."""
    async with meeting(break_off) as they:
        base = f"{they.proxy.url}/v1"
        async with (
            AsyncOpenAI(base_url=base, api_key="key", max_retries=0) as client,
            client.responses.stream(model="fake", input="Hi") as stream,
        ):
            events: list[Any] = [event async for event in stream]

    first, *_, last = events
    assert (first.type, last.type) == ("response.created", "response.failed")
    assert last.response.id == first.response.id != ""
    assert last.response.error.code == "upstream_reset"
