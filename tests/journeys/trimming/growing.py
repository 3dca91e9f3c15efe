"""Conversations that grow request by request, and what the upstream gets of each request."""

import io
import json
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from chat_proxy.telemetry.logs import configure_logging
from tests.support.fake_model import (
    COMPLETION,
    Behaviour,
    FakeModel,
    Line,
    Received,
    answer_json,
    on_chat,
)
from tests.support.fake_model import fake_model as running_model
from tests.support.live import Proxy, RawClient, chat_request, eventually, raw_client, running_proxy
from tests.support.message_slices import message_slices
from tests.unit.chat.shapes import Fields, says, system, user

CLEARED = "[Old tool result content cleared]"
BARE = {name: value for name, value in COMPLETION.items() if name != "usage"}


async def answer(_: Received, line: Line) -> None:
    """Answer without a word about tokens, so that the proxy's own count stays what it is."""
    await answer_json(line, BARE)


async def answer_with_usage(received: Received, line: Line) -> None:
    """Answer as a model that needs a tenth more tokens than the proxy thinks at first."""
    prompt = json.loads(received.body)["messages"]
    chars, pictures = 0, 0
    for message in prompt:
        content = message.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        pictures += sum(part["type"] != "text" for part in parts)
        chars += 40 + sum(len(part.get("text", "")) for part in parts)
    tokens = round(chars / 4.5 + 1600 * pictures)
    usage = {"prompt_tokens": tokens, "completion_tokens": 6, "total_tokens": tokens + 6}
    await answer_json(line, {**BARE, "usage": usage})


def output(tokens: int, name: object = 0) -> str:
    """Return what a tool might print, in about so many tokens."""
    lines = (f"line {number} of the output of {name}" for number in range(tokens // 10 + 1))
    return "\n".join(lines)


def step(name: str, *contents: Any, tool: str = "read") -> list[Fields]:
    """Return a call of one or more tools at once, and their results."""
    names = [f"call-{name}-{number}" for number in range(len(contents))]
    function = {"name": tool, "arguments": json.dumps({"path": f"src/{name}.py"})}
    made = [{"id": each, "type": "function", "function": function} for each in names]
    results = zip(names, contents, strict=True)
    return [
        says(None, tool_calls=made),
        *({"role": "tool", "tool_call_id": each, "content": told} for each, told in results),
    ]


def turn(name: str, *contents: Any, tool: str = "read") -> list[Fields]:
    """Return a question, one step for every result, and an answer."""
    steps = [
        message
        for number, content in enumerate(contents)
        for message in step(f"{name}.{number}", content, tool=tool)
    ]
    return [user(f"Please do {name}"), *steps, says(f"I did {name}")]


def history(turns: int, tokens: int = 360) -> list[Fields]:
    """Return finished turns with one result each; the third is a skill's."""
    messages = [system()]
    for number in range(turns):
        tool = "skill" if number == 2 else "read"
        messages += turn(str(number), output(tokens, number), tool=tool)
    return messages


def results_of(messages: Iterable[Fields]) -> list[Any]:
    """Return the contents of all tool results."""
    return [message["content"] for message in messages if message["role"] == "tool"]


def is_line(content: Any) -> bool:
    """Tell whether one line is left of a result: the placeholder, and never it alone."""
    return isinstance(content, str) and content.startswith(f"{CLEARED} ") and "\n" not in content


def is_short(content: Any) -> bool:
    """Tell whether a result is shortened: its head and its tail are there."""
    return isinstance(content, str) and "[Tool output truncated: omitted " in content


def lines_in(messages: Iterable[Fields]) -> list[int]:
    """Return the numbers of the results of which one line is left."""
    return [number for number, told in enumerate(results_of(messages)) if is_line(told)]


def short_in(messages: Iterable[Fields]) -> list[int]:
    """Return the numbers of the results that are shortened."""
    return [number for number, told in enumerate(results_of(messages)) if is_short(told)]


def requests_of(messages: Sequence[Fields]) -> Iterator[list[Fields]]:
    """Yield the histories that the client sent on its way to this one: up to each answer."""
    for end, message in enumerate(messages):
        if message["role"] == "assistant":
            yield list(messages[:end])
    yield list(messages)


def has_whole_pairs(messages: Sequence[Fields]) -> bool:
    """Tell whether every call is answered right behind it, and every result was asked for."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return False
        else:
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    return not waiting


@dataclass
class Asked:
    """One request: what the client sent, what came of it upstream, what the client was told."""

    body: bytes
    upstream: bytes
    headers: dict[str, str]

    @property
    def messages(self) -> list[Fields]:
        """The messages that the upstream got."""
        return list(json.loads(self.upstream)["messages"])

    @property
    def prompt(self) -> bytes:
        """Their bytes, from the first to the last."""
        places = message_slices(self.upstream)
        return self.upstream[places[0].start : places[-1].stop]

    @property
    def stages(self) -> list[str]:
        return self.headers.get("x-chat-proxy-stages", "").split(",")

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens before and after."""
        before, after = "x-chat-proxy-tokens-before", "x-chat-proxy-tokens-after"
        return int(self.headers[before]), int(self.headers[after])

    def begins(self, other: "Asked") -> bool:
        """Tell whether this prompt is a byte prefix of the other's."""
        return (other.prompt + b",").startswith(self.prompt + b",")


@dataclass
class Client:
    """A client that sends its whole history each time, and remembers what became of it."""

    model: FakeModel
    proxy: Proxy
    line: RawClient
    headers: tuple[str, ...] = ()
    fields: Fields = field(default_factory=lambda: {"model": "fake"})
    separators: tuple[str, str] = (",", ":")
    asked: list[Asked] = field(default_factory=list)

    async def ask(self, messages: Sequence[Fields]) -> Asked:
        """Send a history and return what became of it."""
        document = {**self.fields, "messages": messages}
        body = json.dumps(document, separators=self.separators, ensure_ascii=False).encode()
        await self.line.send(chat_request(body, *self.headers))
        answered = await self.line.answer()
        assert answered.status == 200, answered.body
        self.asked.append(Asked(body, self.model.requests[-1].body, answered.headers))
        return self.asked[-1]

    def broken(self) -> list[str]:
        """Return the requests whose prompt does not begin with the one before, by their ids."""
        pairs = pairwise(self.asked)
        return [new.headers["x-request-id"] for old, new in pairs if not old.begins(new)]


class Log:
    """What the proxy says while a test runs."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines about chat requests."""
        lines = map(json.loads, self.stream.getvalue().splitlines())
        return [line for line in lines if line["message"] == "request"]

    async def compactions(self, requests: int) -> list[str]:
        """Return the ids of the requests that were compacted anew, once all have been told of."""
        await eventually(lambda: len(self.lines()) >= requests)
        return [line["request_id"] for line in self.lines() if line.get("new_compaction")]

    async def was_compacted_anew(self, asked: Asked) -> bool:
        """Tell whether the proxy decided anew about this request."""
        name = asked.headers["x-request-id"]
        await eventually(lambda: any(line["request_id"] == name for line in self.lines()))
        return name in await self.compactions(0)


@contextmanager
def listening() -> Iterator[Log]:
    """Listen to the log; afterwards all is as it was."""
    log = Log()
    configure_logging("info", "json", log.stream)
    try:
        yield log
    finally:
        configure_logging("error", "json", sys.stderr)


@asynccontextmanager
async def fake(behaviour: Behaviour = answer) -> AsyncIterator[FakeModel]:
    """Run a model that behaves so in chats."""
    async with running_model(on_chat(behaviour)) as model:
        yield model


@asynccontextmanager
async def client_of(
    model: FakeModel, window: int, *headers: str, store: Path | None = None, **sections: Any
) -> AsyncIterator[Client]:
    """Run a proxy for a window, without summaries, and connect to it."""
    sections["budget"] = {"context_window": window, **sections.get("budget", {})}
    sections["summary"] = {"enabled": False}
    if store is not None:
        sections["store"] = {"url": f"sqlite:///{store / 'store.db'}"}
    async with running_proxy(model.url, **sections) as proxy, raw_client(proxy) as line:
        yield Client(model, proxy, line, headers)
