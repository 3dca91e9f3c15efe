"""Signs of life for a streaming client whose request waits for a summary."""

import asyncio
from types import TracebackType

from app.proxy.visit import Visit
from app.upstream.usage import StreamTap

COMPACTING = b": compacting\n\n"


class KeptAlive:
    """Sends a streaming client a comment now and then until the block ends; 0 sends none.

    With the first one the answer has begun: from then on an error can only be told in the stream.
    """

    __slots__ = ("_pause_seconds", "_signs", "_visit")

    def __init__(self, visit: Visit, pause_seconds: float) -> None:
        self._visit = visit
        self._pause_seconds = pause_seconds
        self._signs: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        if self._pause_seconds and self._visit.record.streams:
            self._signs = asyncio.create_task(_give_signs(self._visit, self._pause_seconds))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        places: TracebackType | None,
    ) -> None:
        if self._signs is None:
            return
        self._signs.cancel()
        await asyncio.wait({self._signs})
        if not self._signs.cancelled() and (trouble := self._signs.exception()):
            raise trouble


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
