"""A stream of server-sent events that lasts until the viewer leaves."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send

from chat_proxy.proxy.lifecycle.admission import Drain

LOOK_SECONDS = 0.4
PING_SECONDS = 15.0


class News(Protocol):
    """The source of the events."""

    async def news(self) -> bytes:
        """Return the next events as they are sent; empty if there are none yet."""
        ...


class EventStream:
    """An ASGI response that lasts until the viewer leaves or the server stops."""

    def __init__(
        self,
        source: News,
        drain: Drain,
        headers: Mapping[str, str],
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        self._source = source
        self._drain = drain
        self._headers = {**headers, "content-type": "text/event-stream", "x-accel-buffering": "no"}
        self._ping_seconds = ping_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Send the events until the viewer leaves."""
        headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        sending = asyncio.create_task(self._send_events(send))
        leaving = asyncio.create_task(until_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not sending.done():
                sending.cancel()
            await asyncio.wait({sending, leaving})
        if not sending.cancelled():
            sending.result()

    async def _send_events(self, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        last = clock()
        while not self._drain.is_stopping:
            if events := await self._source.news():
                await send(body(events))
                last = clock()
            elif clock() - last >= self._ping_seconds:
                await send(body(b": still here\n\n"))
                last = clock()
            await asyncio.sleep(LOOK_SECONDS)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def body(data: bytes) -> dict[str, Any]:
    """Return an ASGI message with a piece of the answer that is not the last."""
    return {"type": "http.response.body", "body": data, "more_body": True}


async def until_gone(receive: Receive) -> None:
    """Wait until the viewer leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
