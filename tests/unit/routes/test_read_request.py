"""Reading a body beside the event loop."""

import asyncio
import json
from functools import partial

import pytest

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.request import read_request
from chat_proxy.errors import InvalidJson
from chat_proxy.routes.read_request import INLINE_BYTES, parse

pytestmark = pytest.mark.anyio

LIMITS = RequestLimits(max_depth=64, max_elements=500_000, max_messages=10_000, max_choices=16)


async def test_the_loop_goes_on_while_a_large_body_is_read() -> None:
    held: list[int] = []
    body = json.dumps({"model": "m", "messages": [], "user": "x" * INLINE_BYTES}).encode()
    reading = asyncio.ensure_future(
        parse(body, LIMITS, held.append, partial(read_request, body, LIMITS))
    )
    ticks = 0
    while not reading.done():
        await asyncio.sleep(0)
        ticks += 1

    assert ticks > 1
    assert (await reading).model == "m"
    assert all(size > len(body) for size in held)


async def test_a_small_body_is_read_at_once() -> None:
    body = b'{"model":"m"}'
    read = partial(read_request, body, LIMITS)
    reading = asyncio.ensure_future(parse(body, LIMITS, list[int]().append, read))
    await asyncio.sleep(0)

    assert reading.done()
    assert (await reading).model == "m"


@pytest.mark.parametrize("size", [1, INLINE_BYTES])
async def test_what_cannot_be_read_is_refused_either_way(size: int) -> None:
    body = b"{" + b" " * size
    with pytest.raises(InvalidJson):
        await parse(body, LIMITS, list[int]().append, partial(read_request, body, LIMITS))
