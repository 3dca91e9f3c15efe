"""Signs of life for a streaming client whose request waits for a summary."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.proxy.visit import Visit
from app.upstream.usage import StreamTap

COMPACTING = b": compacting\n\n"


@asynccontextmanager
async def kept_alive(visit: Visit, pause_seconds: float) -> AsyncIterator[None]:
    """Send a comment now and then until the block ends; 0 sends none.

    With the first one the answer has begun: from then on an error can only be told in the stream.
    """
    if not pause_seconds or not visit.record.streams:
        yield
        return
    signs = asyncio.create_task(_give_signs(visit, pause_seconds))
    try:
        yield
    finally:
        signs.cancel()
        await asyncio.wait({signs})
        if not signs.cancelled() and (error := signs.exception()):
            raise error


async def _give_signs(visit: Visit, pause_seconds: float) -> None:
    await asyncio.sleep(pause_seconds)
    if not visit.sink.started:
        await _begin(visit)
    while True:
        await visit.sink.write(COMPACTING)
        await asyncio.sleep(pause_seconds)


async def _begin(visit: Visit) -> None:
    visit.record.status = 200
    visit.tap = StreamTap()
    await visit.sink.start(
        200,
        [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-request-id", visit.record.request_id.encode("ascii")),
        ],
    )
