"""A model server that answers at once, and writes summaries: `python -m bench.waits.upstream PORT`.

It tells no usage: nothing is to be learned from its answers.
"""

import asyncio
import gc
import sys
from collections.abc import Iterator

import orjson
import uvloop

from bench.traffic.fake_upstream import Caller
from bench.waits.histories import MODEL, Json
from chat_proxy.compaction.summary.prompt import PROGRESS, SECTIONS

PURPOSE = b"x-chat-proxy-purpose"
SUMMARY_BULLETS = 40
_LONGEST_BULLET = 100
_LISTED = orjson.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class WaitsCaller(Caller):
    """One kept-alive connection."""

    def __init__(self) -> None:
        super().__init__()
        self._asks_for_summary = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Notice a request for a summary."""
        if name.lower() == PURPOSE:
            self._asks_for_summary = value == b"summary"

    def on_message_complete(self) -> None:
        """Answer a request that is complete."""
        body, self._body = b"".join(self._body), []
        is_summary, self._asks_for_summary = self._asks_for_summary, False
        if self._parser.get_method() == b"GET":
            self._send(_LISTED)
        elif is_summary:
            self._send_stream(summary_of(body))
        else:
            self._send(ANSWER)

    def _send_stream(self, text: str) -> None:
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in _events(text))
        self._transport.write(_STREAM_HEAD + chunks + b"0\r\n\r\n")


def summary_of(body: bytes) -> str:
    """Return a summary with all sections and some lines of what was sent."""
    messages = orjson.loads(body)["messages"]
    texts = [message["content"] for message in messages if type(message.get("content")) is str]
    lines = [line.strip(" -#") for line in "\n".join(texts[:-1] or texts).splitlines()]
    lines = [line[:_LONGEST_BULLET] for line in lines if "_" in line and "<<<" not in line]
    chosen = lines[:: len(lines) // SUMMARY_BULLETS + 1]
    return "\n".join(_written(chosen))


def _written(bullets: list[str]) -> Iterator[str]:
    for section in SECTIONS:
        yield f"## {section}"
        if section == "Progress":
            yield from (f"### {part}\n- (none)" for part in PROGRESS)
        elif section == "Critical Context":
            yield from (f"- {bullet}" for bullet in bullets)
        else:
            yield "- (none)"


def _answer(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return orjson.dumps(_envelope("chat.completion", choice))


def _events(text: str) -> Iterator[bytes]:
    for delta, reason in (({"role": "assistant", "content": text}, None), ({}, "stop")):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        yield b"data: %s\n\n" % orjson.dumps(_envelope("chat.completion.chunk", choice))
    yield b"data: [DONE]\n\n"


def _envelope(kind: str, choice: Json) -> Json:
    head = {"id": "chatcmpl-waits", "object": kind, "created": 1_790_000_000, "model": MODEL}
    return {**head, "choices": [choice]}


ANSWER = _answer("Well.")


async def serve(port: int) -> None:
    """Answer until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(WaitsCaller, "127.0.0.1", port, backlog=1024)
    gc.disable()  # nothing here makes cycles, and a collection would look like a wait
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
