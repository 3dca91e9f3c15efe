"""Clients that compact by hand: over HTTP, and by a word in the conversation."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI

from tests.journeys.summaries.talking import SYSTEM, Talk, turns
from tests.support.fake_model import Line
from tests.support.live import RawAnswer, RawClient
from tests.support.summary_model import Question, SummaryModel, answer, good, written
from tests.unit.chat.shapes import Fields, says, user

WISH = "Care about the penguins above all"
SHORT = written(
    [
        "Question 0 and later ones: what does src/module_0.py do, and the other modules?",
        "Each answer: the loader reads its table once and keeps every row for a later pass.",
    ]
)
MARKER = "[chat-proxy checkpoint covered="
UPDATE = "An earlier summary stands at the beginning"


async def brief(question: Question, line: Line) -> None:
    """Write the shortest summary that there is."""
    await answer(question, line, SHORT)


def small_chat(count: int = 8) -> list[Fields]:
    """Return a conversation far below the trigger, which has been answered to its end."""
    return [SYSTEM, *turns(count, 240)]


def model(telling: Any = good, **more: Any) -> SummaryModel:
    """Return a model that writes summaries so."""
    return SummaryModel(telling, **more)


async def post_compact(line: RawClient, messages: Any, *headers: str, **fields: Any) -> RawAnswer:
    """Ask for a compaction and return the answer, whatever it is."""
    body = json.dumps({"model": "fake", "messages": messages, **fields}).encode()
    lines = [
        "POST /v1/chat/compact HTTP/1.1",
        "host: proxy",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *headers,
        "",
        "",
    ]
    await line.send("\r\n".join(lines).encode() + body)
    return await line.answer()


async def compacted(talk: Talk, messages: Sequence[Fields], **fields: Any) -> dict[str, Any]:
    """Have a conversation compacted, and return what came of it."""
    answered = await post_compact(talk.line, messages, *talk.headers, **fields)
    assert answered.status == 200, answered.body
    return dict(json.loads(answered.body))


@asynccontextmanager
async def sdk(talk: Talk) -> AsyncIterator[AsyncOpenAI]:
    """Return the SDK that most clients are made with."""
    async with AsyncOpenAI(
        base_url=f"{talk.proxy.url}/v1", api_key="one", max_retries=0, timeout=60
    ) as client:
        yield client


async def command(
    client: AsyncOpenAI, messages: Sequence[Fields], said: Any = "/compact"
) -> tuple[str, str]:
    """Say a command at the end of a conversation; return what was answered and done."""
    asked: Any = [*messages, user(said)]
    raw = await client.chat.completions.with_raw_response.create(model="fake", messages=asked)
    choice = raw.parse().choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.content is not None
    return choice.message.content, raw.headers["x-chat-proxy-compaction"]


def going_on(messages: Sequence[Fields], said: str, answered: str) -> list[Fields]:
    """Return a conversation as the client goes on with it behind a command."""
    return [*messages, user(said), says(answered), user("And now?")]


def sent(talk: Talk) -> list[Fields]:
    """Return what the model got to read last."""
    return talk.brain.chats[-1].messages
