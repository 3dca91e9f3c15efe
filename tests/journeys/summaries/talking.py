"""Clients that talk to a proxy in front of a model which writes summaries, and what came of it."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise
from typing import Any

from tests.journeys.trimming.growing import Asked
from tests.support.fake_model import FakeModel, fake_model
from tests.support.live import Proxy, RawAnswer, RawClient, chat_request, raw_client, running_proxy
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, says, system, user

WINDOW = 8_000
TRIGGER = 5_600
"""By the default settings: 0.8 of what a reserve of an eighth leaves."""
LIMIT = 7_744
"""The longest prompt that leaves the window space for an ordinary answer."""
SYSTEM = system("You are careful. " * 20)
_SENTENCE = "the loader reads its table once and keeps every row that a later pass may want"


def prose(tokens: int, name: object) -> str:
    """Return about so many tokens about something, in plain words."""
    lines = max(1, tokens // 20)
    words = islice(cycle(_SENTENCE.split()), lines * 15)
    return "\n".join(
        f"About {name}: " + " ".join(islice(words, 15)) + f" ({number})" for number in range(lines)
    )


def turns(count: int, tokens: int = 400, first: int = 0) -> list[Fields]:
    """Return exchanges of about so many tokens each, no two alike."""
    return [
        message
        for number in range(first, first + count)
        for message in (
            user(f"Question {number}: what does src/module_{number}.py do?"),
            says(prose(tokens - 30, f"answer {number}")),
        )
    ]


def long_chat(count: int = 14, tokens: int = 400) -> list[Fields]:
    """Return a conversation over the trigger, with a question at its end."""
    return [SYSTEM, *turns(count, tokens), user("And now?")]


def other_chat(number: int = 0, count: int = 14) -> list[Fields]:
    """Return a conversation as long as the other one, with nothing else in common."""
    return [SYSTEM, *turns(count, first=100 * (number + 1)), user("And now?")]


def body_of(
    messages: Sequence[Fields], separators: tuple[str, str] = (",", ":"), **fields: Any
) -> bytes:
    """Write a request as most clients do."""
    document = {"model": "fake", "messages": messages, **fields}
    return json.dumps(document, separators=separators, ensure_ascii=False).encode()


@dataclass
class Talk:
    """A client that sends its whole history each time, and remembers what became of it."""

    brain: SummaryModel
    model: FakeModel
    proxy: Proxy
    line: RawClient
    headers: tuple[str, ...] = ()
    fields: Fields = field(default_factory=dict)
    separators: tuple[str, str] = (",", ":")
    asked: list[Asked] = field(default_factory=list)

    async def ask(self, messages: Sequence[Fields], *headers: str) -> Asked:
        """Send a history, which is answered, and return what became of it."""
        body = body_of(messages, self.separators, **self.fields)
        answered = await post(self.line, body, *self.headers, *headers)
        assert answered.status == 200, answered.body
        upstream = self.brain.chats[-1].received.body
        self.asked.append(Asked(body, upstream, answered.headers))
        return self.asked[-1]

    def broken(self) -> list[str]:
        """Return the requests whose prompt does not begin with the one before, by their ids."""
        pairs = pairwise(self.asked)
        return [new.headers["x-request-id"] for old, new in pairs if not old.begins(new)]


async def post(line: RawClient, body: bytes, *headers: str) -> RawAnswer:
    """Send a chat request and return the answer, whatever it is."""
    await line.send(chat_request(body, *headers))
    return await line.answer()


def label(asked: Asked | RawAnswer) -> str:
    """What the proxy says that it did."""
    return asked.headers["x-chat-proxy-compaction"]


@asynccontextmanager
async def talking(
    brain: SummaryModel, *headers: str, window: int = WINDOW, **sections: Any
) -> AsyncIterator[Talk]:
    """Run a model and a proxy for a window, and connect to it.

    Unless told otherwise, nothing is prepared and a request over the trigger waits for its summary.
    """
    async with (
        fake_model(brain) as model,
        talking_to(model, *headers, window=window, **sections) as talk,
    ):
        yield talk


@asynccontextmanager
async def talking_to(
    model: FakeModel, *headers: str, window: int = WINDOW, **sections: Any
) -> AsyncIterator[Talk]:
    """Run a proxy in front of a model that is there already, and connect to it."""
    assert isinstance(model.behaviour, SummaryModel)
    budget = {"context_window": window, "prepare": 1, **sections.pop("budget", {})}
    summary = {"wait": "trigger", **sections.pop("summary", {})}
    async with (
        running_proxy(model.url, budget=budget, summary=summary, **sections) as proxy,
        raw_client(proxy) as line,
    ):
        yield Talk(model.behaviour, model, proxy, line, headers)
