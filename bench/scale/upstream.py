"""A model server that counts what it is asked: `python -m bench.scale.upstream PORT WINDOW`.

Chats are answered at once, summaries after a while; `/counts` has the number of both.
"""

import asyncio
import gc
import sys
from collections import Counter

import orjson
import uvloop

from bench.traffic.payloads import MODEL
from bench.waits.upstream import WaitsCaller, summary_of

SECONDS_TO_SUMMARISE = 0.3
COUNTS_PATH = "/counts"
CHATS, SUMMARIES = "chats", "summaries"


class CountingCaller(WaitsCaller):
    """One kept-alive connection; all of them share the counts."""

    def __init__(self, counts: Counter[str], window: int) -> None:
        super().__init__()
        self._counts = counts
        self._window = window
        self._path = b""

    def on_url(self, url: bytes) -> None:
        """Keep the path of the request."""
        self._path = url

    def on_message_complete(self) -> None:
        """Answer a request that is complete, and count it."""
        if self._parser.get_method() == b"GET":
            self._send(self._told())
        elif self._asks_for_summary:
            body, self._body, self._asks_for_summary = b"".join(self._body), [], False
            self._counts[SUMMARIES] += 1
            self._loop.call_later(SECONDS_TO_SUMMARISE, self._send_summary, body)
        else:
            self._counts[CHATS] += 1
            super().on_message_complete()

    def _told(self) -> bytes:
        if self._path == COUNTS_PATH.encode():
            return orjson.dumps(self._counts)
        card = {"id": MODEL, "object": "model", "owned_by": "vllm", "max_model_len": self._window}
        return orjson.dumps({"object": "list", "data": [card]})

    def _send_summary(self, body: bytes) -> None:
        if not self._transport.is_closing():
            self._send_stream(summary_of(body))


async def serve(port: int, window: int) -> None:
    """Answer until killed."""
    counts: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: CountingCaller(counts, window), "127.0.0.1", port, backlog=1024
    )
    gc.disable()  # nothing here makes cycles
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
