"""Keep-alive comments for a streaming client whose request waits for a summary."""

import asyncio
from types import TracebackType

from chat_proxy.proxy.request_context import NOT_BUFFERED, RequestContext


class SseKeepalive:
    """Send a streaming client a comment at intervals until the block ends; 0 sends none.

    The first comment begins the answer: from then on errors can only be sent in the stream.
    """

    __slots__ = ("_context", "_pause_seconds", "_task", "_timer")

    def __init__(self, context: RequestContext, pause_seconds: float) -> None:
        self._context = context
        self._pause_seconds = pause_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        if self._pause_seconds and self._context.record.streams:
            # A timer, as hardly a request waits so long: a task would cost it ten times as much.
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._pause_seconds, self._begin)

    def _begin(self) -> None:
        comments = _send_comments(self._context, self._pause_seconds)
        self._task = asyncio.get_running_loop().create_task(comments)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        places: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled() and (failure := self._task.exception()):
            raise failure


async def _send_comments(context: RequestContext, pause_seconds: float) -> None:
    if not context.sink.started:
        await _begin(context)
    while True:
        await context.sink.write(context.wire.answers.waiting)
        await asyncio.sleep(pause_seconds)


async def _begin(context: RequestContext) -> None:
    context.record.status = 200
    context.observe(context.wire.answers.tap())
    await context.sink.start(
        200,
        [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            NOT_BUFFERED,
            (b"x-request-id", context.record.request_id.encode("ascii")),
            *context.record.page_headers,
        ],
    )
