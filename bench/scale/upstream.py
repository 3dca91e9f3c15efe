"""A model server that counts what it is asked: `python -m bench.scale.upstream PORT WINDOW`.

Chats and summaries are answered after a while, summaries with a usage that says that most of the
prompt was in the prefix cache, as it is while the conversation goes on. `/counts` has the numbers.
"""

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
import uvloop

from bench.traffic.payloads import MODEL
from bench.waits.upstream import ANSWER, WaitsCaller
from chat_proxy.compaction.summary.prompt import PROGRESS, SECTIONS

SECONDS_TO_ANSWER = 0.25
"""Without a pause the next request would overtake what the last one began in the background."""
SECONDS_TO_SUMMARISE = 0.75
TENTHS_CACHED = 9
TENTHS_OF_BYTES_PER_TOKEN = 33
SUMMARY_BULLETS = 40
_LONGEST_BULLET = 100
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
            self._body = []
            self._counts[CHATS] += 1
            self._loop.call_later(SECONDS_TO_ANSWER, self._send_answer)

    def _told(self) -> bytes:
        if self._path == COUNTS_PATH.encode():
            return orjson.dumps(self._counts)
        card = {"id": MODEL, "object": "model", "owned_by": "vllm", "max_model_len": self._window}
        return orjson.dumps({"object": "list", "data": [card]})

    def _send_answer(self) -> None:
        if not self._transport.is_closing():
            self._send(ANSWER)

    def _send_summary(self, body: bytes) -> None:
        if not self._transport.is_closing():
            events = b"".join(_events(summary_of(body), len(body)))
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                b"content-length: %d\r\n\r\n%s" % (len(events), events)
            )


def summary_of(body: bytes) -> str:
    """Return a summary with all sections and some lines of what was sent, in either shape."""
    messages = orjson.loads(body)["messages"]
    texts = [message["content"] for message in messages if type(message.get("content")) is str]
    lines = [line.strip(" -#")[:_LONGEST_BULLET] for text in texts for line in text.splitlines()]
    code = [line for line in lines if "_" in line and "=" in line and "<<<" not in line]
    return "\n".join(_written(code[:: len(code) // SUMMARY_BULLETS + 1]))


def _written(bullets: list[str]) -> Iterator[str]:
    for section in SECTIONS:
        yield f"## {section}"
        if section == "Progress":
            yield from (f"### {part}\n- (none)" for part in PROGRESS)
        elif section == "Critical Context":
            yield from (f"- {bullet}" for bullet in bullets)
        else:
            yield "- (none)"


def _events(text: str, prompt_bytes: int) -> Iterator[bytes]:
    for delta, reason in (({"role": "assistant", "content": text}, None), ({}, "stop")):
        yield _event([{"index": 0, "delta": delta, "finish_reason": reason}])
    sent, written = prompt_bytes * 10 // TENTHS_OF_BYTES_PER_TOKEN, len(text) // 4
    usage = {
        "prompt_tokens": sent,
        "completion_tokens": written,
        "total_tokens": sent + written,
        "prompt_tokens_details": {"cached_tokens": sent * TENTHS_CACHED // 10},
    }
    yield _event([], {"usage": usage})
    yield b"data: [DONE]\n\n"


def _event(choices: list[dict[str, Any]], fields: dict[str, Any] | None = None) -> bytes:
    head = {"id": "chatcmpl-scale", "object": "chat.completion.chunk", "created": 1_790_000_000}
    return b"data: %s\n\n" % orjson.dumps(
        {**head, "model": MODEL, "choices": choices, **(fields or {})}
    )


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
