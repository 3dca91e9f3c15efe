"""A model server that costs next to nothing: `python -m bench.traffic.fake_upstream PORT`."""

import asyncio
import gc
import re
import sys
from typing import cast

import httptools
import uvloop

from bench.traffic.payloads import answer, answer_events, models

# Long enough that no contender finds two events of a stream in one read.
SECONDS_BETWEEN_EVENTS = 0.002

_ASKS_FOR_STREAM = re.compile(rb'"stream":\s*true')
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class Caller(asyncio.Protocol):
    """One kept-alive connection; httptools calls its `on_…` methods."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._next_event: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to answer on."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Stop a stream that nobody reads."""
        if self._next_event is not None:
            self._next_event.cancel()

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Collect the request's body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Answer a request that is complete."""
        body, self._body = b"".join(self._body), []
        if self._parser.get_method() == b"GET":
            self._send(models())
        elif _ASKS_FOR_STREAM.search(body):
            self._transport.write(_STREAM_HEAD)
            self._send_events(answer_events(len(body)), 0)
        else:
            self._send(answer(len(body)))

    def _send(self, body: bytes) -> None:
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
            % (len(body), body)
        )

    def _send_events(self, events: list[bytes], index: int) -> None:
        """Write one event now and the others after a pause each."""
        event = events[index]
        self._transport.write(b"%x\r\n%s\r\n" % (len(event), event))
        if index + 1 < len(events):
            self._next_event = self._loop.call_later(
                SECONDS_BETWEEN_EVENTS, self._send_events, events, index + 1
            )
        else:
            self._transport.write(b"0\r\n\r\n")


async def serve(port: int) -> None:
    """Answer until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Caller, "127.0.0.1", port, backlog=1024)
    gc.disable()  # nothing here makes cycles, and a collection would look like a slow contender
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
