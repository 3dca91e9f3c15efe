"""Long tool results, what the upstream gets of them, and what comes back of them."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.conversations import (
    NO_SUMMARY,
    ROOMY,
    get,
    last_messages,
    post,
    without_usage,
)
from tests.support.fake_model import FakeModel, fake_model, on_chat
from tests.support.live import RawAnswer, RawClient, chat_body, raw_client, running_proxy
from tests.unit.chat.shapes import Fields, calls, result, user

LIMIT = 50_000
LONG = "".join(
    f"{number:06} a line of a log that nobody reads to its end\n" for number in range(4000)
)
NOTE = re.compile(r"\[Tool output truncated: omitted (\d+) chars\] \[offload id: ([0-9a-f]{32})\]")
ANN, BOB = "authorization: Bearer sk-ann", "authorization: Bearer sk-bob"
UNKNOWN = "/v1/offload/" + "0" * 32


def with_result(content: Any) -> list[Fields]:
    return [user("Read the log"), calls("1"), result("1", content)]


def body_with(content: Any) -> bytes:
    return chat_body(messages=with_result(content))


def id_in(cut: str) -> str:
    found = NOTE.search(cut)
    assert found, cut[-200:]
    return found[2]


async def cut_of(model: FakeModel, client: RawClient, content: Any, *headers: str) -> Any:
    """Send a tool result; return what the upstream got of it."""
    await post(client, body_with(content), *headers)
    return last_messages(model)[2]["content"]


async def offloaded(client: RawClient, name: str, *headers: str) -> RawAnswer:
    return await get(client, f"/v1/offload/{name}", *headers)


@asynccontextmanager
async def in_file(file: Path, **sections: Any) -> AsyncIterator[tuple[FakeModel, RawClient]]:
    """A model and a client of a proxy that keeps texts in this file."""
    store = {"url": f"sqlite:///{file}", **sections.pop("store", {})}
    async with (
        fake_model(on_chat(without_usage)) as model,
        running_proxy(
            model.url, store=store, summary=NO_SUMMARY, budget=ROOMY, **sections
        ) as proxy,
        raw_client(proxy) as client,
    ):
        yield model, client
