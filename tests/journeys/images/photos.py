"""Real photos, a server that counts them as Qwen2-VL does, and what it received."""

import base64
import io
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from chat_proxy.tokens.images.size import Size, image_size
from chat_proxy.tokens.images.tokens import image_tokens
from tests.journeys.replay.small_server import counted
from tests.support.conversations import registry_file
from tests.support.fake_model import Line, Received, answer_json
from tests.support.live import RawAnswer, chat_body, chat_request
from tests.support.meeting import Meeting, meeting
from tests.unit.chat.shapes import Fields, image, text, user

FAMILY = "qwen2-vl"


@lru_cache
def photo(width: int = 4_000, height: int = 3_000, seed: int = 0, form: str = "JPEG") -> str:
    """A data URL of a photo: soft colours, like no other of another seed."""
    from PIL import Image

    size = (width // 100 + 2, height // 100 + 2)
    noise = Image.frombytes("RGB", size, random.Random(seed).randbytes(size[0] * size[1] * 3))
    written = io.BytesIO()
    noise.resize((width, height), Image.Resampling.BICUBIC).save(written, form)
    head = f"data:image/{form.lower()};base64,"
    return head + base64.b64encode(written.getvalue()).decode()


def asks(words: str, url: str, **fields: Any) -> Fields:
    """A user message with a photo."""
    return user([text(words), {**image(url), **fields}])


class VisionServer:
    """Counts images by their pixels and texts by four characters; refuses what fills its window."""

    def __init__(self, window: int, max_bytes: int = 1 << 30) -> None:
        self.window = window
        self.max_bytes = max_bytes
        self.prompts: list[list[Fields]] = []
        self.bodies: list[bytes] = []
        self.refused = 0

    async def __call__(self, received: Received, line: Line) -> None:
        messages = json.loads(received.body)["messages"]
        self.prompts.append(messages)
        self.bodies.append(received.body)
        tokens = tokens_of(messages)
        if len(received.body) > self.max_bytes:
            self.refused += 1
            await line.head(413, "content-length: 0")
            return
        if tokens >= self.window:
            self.refused += 1
            body = counted(self.window, tokens)
            await line.head(400, "content-type: application/json", f"content-length: {len(body)}")
            await line.send(body)
            return
        choice = {"message": {"role": "assistant", "content": "A harbour at dawn."}, "index": 0}
        usage = {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}
        await answer_json(
            line,
            {
                "object": "chat.completion",
                "choices": [{**choice, "finish_reason": "stop"}],
                "usage": usage,
            },
        )


def tokens_of(messages: list[Fields]) -> int:
    """The tokens of a prompt as this server counts them."""
    texts = json.dumps([without_images(message) for message in messages])
    return len(texts) // 4 + sum(
        image_tokens(url, None, FAMILY, 0) for message in messages for url in urls_in(message)
    )


def urls_in(message: Fields) -> list[str]:
    """The images of a message."""
    content = message["content"]
    parts = content if isinstance(content, list) else []
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def sizes_in(messages: list[Fields]) -> list[Size]:
    """The sizes of all images of a prompt."""
    found = [image_size(url) for message in messages for url in urls_in(message)]
    return [size for size in found if size is not None]


def without_images(message: Fields) -> Fields:
    content = message["content"]
    if not isinstance(content, list):
        return message
    return {**message, "content": [part for part in content if part["type"] != "image_url"]}


@asynccontextmanager
async def looking(
    server: VisionServer, folder: Path, window: int | None = None, **sections: Any
) -> AsyncIterator[Meeting]:
    """Let the server, a proxy that knows its family and a client meet."""
    registry = registry_file(folder, {"name": "fake", "vision": True, "image_family": FAMILY})
    budget = {"context_window": window or server.window}
    settings = {"registry": registry, "budget": budget, "summary": {"enabled": False}, **sections}
    async with meeting(server, **settings) as met:
        yield met


async def tell(met: Meeting, messages: list[Fields], **fields: Any) -> RawAnswer:
    """Send a chat and return its answer."""
    await met.client.send(chat_request(chat_body(messages=messages, **fields)))
    return await met.client.answer()
