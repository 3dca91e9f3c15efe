"""Row B14: an upstream that drips, and never comes to its end."""

import asyncio
import time
from statistics import median

import pytest

from tests.faults.faulty import WORD, Streams, last_error
from tests.support.clock import own_time
from tests.support.fake_model import Line, Received, begin_stream
from tests.support.live import chat_body, chat_request
from tests.support.meeting import Meeting, Stage, meeting
from tests.support.wires.apis import ALL, Api

pytestmark = pytest.mark.anyio

RELAY_SECONDS = 0.05
CPU_SECONDS_PER_BYTE = 0.01
"""One in a hundred of the time, when there is one byte a second."""


class Drips:
    """Sends one byte after another and notes when."""

    def __init__(self, data: bytes, pause: float = 0.005) -> None:
        self.sent_at = asyncio.Queue[float]()
        self._data = data
        self._pause = pause

    async def __call__(self, _: Received, line: Line) -> None:
        await begin_stream(line)
        for byte in self._data:
            self.sent_at.put_nowait(own_time())
            await line.chunk(bytes([byte]))
            await asyncio.sleep(self._pause)
        await line.until_closed()


async def delays(they: Meeting, drips: Drips, data: bytes) -> list[float]:
    """Read the bytes, each of which comes alone; return how long each was under way."""
    await they.client.send(chat_request(chat_body(stream=True)))
    await they.client.reader.readuntil(b"\r\n\r\n")
    found = []
    for byte in data:
        assert await they.client.reader.readexactly(6) == b"1\r\n%c\r\n" % byte
        found.append(own_time() - await drips.sent_at.get())
    return found


async def test_b14_each_dripped_byte_arrives_at_once(stage: Stage) -> None:
    drips = Drips(WORD[:40])
    async with stage(drips) as they:
        assert median(await delays(they, drips, WORD[:40])) < RELAY_SECONDS


async def test_b14_a_dripped_byte_costs_next_to_nothing(stage: Stage) -> None:
    """With the model's and the client's own work in it, as they share the process."""
    drips = Drips(WORD[:100], pause=0.001)
    async with stage(drips) as they:
        before = time.process_time()
        await delays(they, drips, WORD[:100])
        spent = time.process_time() - before

    assert spent / 100 < CPU_SECONDS_PER_BYTE


@ALL
async def test_b14_an_answer_without_end_ends_at_the_total_limit(api: Api) -> None:
    limits = {"total_timeout_seconds": 0.3}
    async with meeting(Streams(*[api.word] * 100, pause=0.02), upstream=limits, api=api) as they:
        answer = await they.stream()

    words = answer.body.count(api.word)
    assert 3 < words < 20
    assert last_error(answer, api.word * words, api) == "upstream_total_timeout"
