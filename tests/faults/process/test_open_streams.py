"""Row E5: many open streams, and a large body, take little from everybody else."""

import asyncio
import json

import pytest

from tests.support.live import chat_request
from tools.crowds.run import (
    KILOBYTE,
    Holding,
    ProxyProcess,
    crowd,
    pinged,
    proxy_process,
)

pytestmark = pytest.mark.anyio

STREAMS = 250
IMAGE = "data:image/png;base64," + "QUJD" * 50_000
LARGE_BODY_BYTES = 31_000_000
TRIES = 3


async def test_e5_open_streams_are_small_and_nobody_waits_for_them() -> None:
    found = await crowd(STREAMS, warm_up=50, seconds=1)

    assert found.bytes_each < 60 * KILOBYTE
    assert found.waits.p99 < 0.020 + 3 * found.waits.late_p99
    assert found.new_request_seconds[0] < 0.1 + 3 * found.waits.late_p99


def pictures(size: int) -> bytes:
    """A chat request full of pictures."""
    part = {"type": "image_url", "image_url": {"url": IMAGE}}
    messages = [{"role": "user", "content": [part]} for _ in range(size // len(IMAGE))]
    return json.dumps({"model": "fake", "stream": True, "messages": messages}).encode()


async def is_held_up(proxy: ProxyProcess, body: bytes) -> bool:
    """Send a large body while somebody else asks all the time; tell whether that one had to wait.

    Three times what the machine itself makes the asking process wait is not the proxy's doing.
    """
    client = await proxy.connect()
    async with pinged(proxy.port) as waits, asyncio.timeout(300):
        await client.send(chat_request(body))
        await client.reader.readuntil(b"word ")
    client.leave()
    return waits[0].answers[-1] > 0.1 + 3 * waits[0].lateness[-1]


async def test_e5_a_body_of_32_megabytes_holds_up_nobody_else() -> None:
    """The best of three, as this is about the proxy and not about the machine."""
    body = pictures(LARGE_BODY_BYTES)
    async with proxy_process(Holding()) as proxy:
        tries = [await is_held_up(proxy, body)]
        while tries[-1] and len(tries) < TRIES:
            tries.append(await is_held_up(proxy, body))

    assert not tries[-1]
