"""Signs of life for a streaming client whose request waits for a summary."""

import asyncio
from types import TracebackType

from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.upstream.usage import StreamTap

COMPACTING = b": compacting\n\n"


class SseKeepalive:
    """Sends a streaming client a comment now and then until the block ends; 0 sends none.

    With the first one the answer has begun: from then on an error can only be told in the stream.
    """

    __slots__ = ("_context", "_pause_seconds", "_signs")

    def __init__(self, context: RequestContext, pause_seconds: float) -> None:
        self._context = context
        self._pause_seconds = pause_seconds
        self._signs: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        if self._pause_seconds and self._context.record.streams:
            self._signs = asyncio.create_task(_give_signs(self._context, self._pause_seconds))

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


async def _give_signs(context: RequestContext, pause_seconds: float) -> None:
    await asyncio.sleep(pause_seconds)
    if not context.sink.started:
        await _begin(context)
    while True:
        await context.sink.write(COMPACTING)
        await asyncio.sleep(pause_seconds)


async def _begin(context: RequestContext) -> None:
    context.record.status = 200
    context.tap = StreamTap()
    await context.sink.start(
        200,
        [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-request-id", context.record.request_id.encode("ascii")),
        ],
    )
