"""Chats over HTTP: photos, registries, what the upstream received, and what the log said."""

import hashlib
import io
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from chat_proxy.telemetry.logs import configure_logging
from tests.journeys.counting.pictures import png
from tests.support.fake_model import Behaviour, FakeModel, Line, Received, answer_json, polite
from tests.support.live import RawAnswer, RawClient, chat_request
from tests.support.meeting import Meeting, meeting
from tests.unit.chat.shapes import Fields, image

NO_SUMMARY = {"enabled": False}
ROOMY = {"context_window": 1_000_000}


def photo(number: int) -> Fields:
    """A part with an image; every number is another image of about the same size."""
    return image(png(512, 512 + number))


def registry_file(folder: Path, *entries: Fields) -> dict[str, Any]:
    """Write a model registry; return the settings section that names it."""
    file = folder / "registry.json"
    file.write_text(json.dumps(entries))
    return {"file": str(file)}


async def without_usage(received: Received, line: Line) -> None:
    """Answer politely and count nothing, so that no estimate changes between two requests."""
    if b'"stream":true' in received.body.replace(b" ", b""):
        await polite(received, line)
    else:
        message = {"role": "assistant", "content": "Well."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await answer_json(line, {"object": "chat.completion", "choices": [choice]})


@asynccontextmanager
async def trimming(behaviour: Behaviour = without_usage, **sections: Any) -> AsyncIterator[Meeting]:
    """Let a model, a proxy that only trims and a client meet; the window is large unless told."""
    async with meeting(behaviour, **{"summary": NO_SUMMARY, "budget": ROOMY, **sections}) as met:
        yield met


async def post(client: RawClient, body: bytes, *headers: str) -> RawAnswer:
    """Send a chat request with these very bytes and return its answer, which is no error."""
    await client.send(chat_request(body, *headers))
    answer = await client.answer()
    assert answer.status == 200, answer.body
    return answer


async def get(client: RawClient, path: str, *headers: str) -> RawAnswer:
    """Ask for a path and return the answer."""
    lines = [f"GET {path} HTTP/1.1", "host: proxy", *headers, "", ""]
    await client.send("\r\n".join(lines).encode("latin-1"))
    return await client.answer()


def last_body(model: FakeModel) -> bytes:
    """The bytes of the chat request that the upstream received last."""
    chats = [request.body for request in model.requests if request.method == "POST"]
    return chats[-1]


def last_messages(model: FakeModel) -> list[Fields]:
    """The messages that the upstream received last."""
    return list(json.loads(last_body(model))["messages"])


def sha256(body: bytes) -> str:
    """The fingerprint of a body."""
    return hashlib.sha256(body).hexdigest()


class Heard:
    """The log so far."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        """Every line, as it was written."""
        return self._stream.getvalue()

    def lines(self, sentence: str) -> list[dict[str, Any]]:
        """The lines with this sentence."""
        found = [json.loads(line) for line in self.text.splitlines()]
        return [line for line in found if line["message"] == sentence]


@contextmanager
def listening() -> Iterator[Heard]:
    """Listen to the log until the block ends; afterwards it is quiet again."""
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    try:
        yield Heard(stream)
    finally:
        configure_logging("error", "json", sys.stderr)
