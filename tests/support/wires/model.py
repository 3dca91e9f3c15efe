"""A model server that speaks all three APIs, counts its prompts and refuses what is too long."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.support.fake_model import (
    FakeModel,
    Line,
    Received,
    answer_json,
    begin_stream,
    event,
    fake_model,
)
from tests.support.live import Proxy, RawAnswer, RawClient, raw_client, running_proxy
from tests.support.meeting import Meeting
from tests.support.summary_material import LONGEST_LINE, some_of
from tests.support.summary_model import overflow, tokenizer, written
from tests.support.wires.apis import APIS, CHAT, MESSAGES, Api, named

Fields = dict[str, Any]
IMAGE_TOKENS = 300
NAMES = ("fake", "mock-model")
_MEDIA = ("image", "input_image", "image_url", "computer_screenshot")
_READ = ("messages", "input", "system", "instructions", "tools")
_LIMITS = ("max_tokens", "max_output_tokens", "max_completion_tokens")


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text of a request that a model reads."""
    if type(value) is str:
        yield value
    elif type(value) is list:
        for each in value:
            yield from texts_in(each)
    elif type(value) is dict and value.get("type") not in _MEDIA:
        for each in value.values():
            yield from texts_in(each)


def media_in(value: Any) -> int:
    """Return how many images a request has."""
    if type(value) is list:
        return sum(map(media_in, value))
    if type(value) is not dict:
        return 0
    return 1 if value.get("type") in _MEDIA else sum(map(media_in, value.values()))


@dataclass(frozen=True)
class Asked:
    """A request as the model sees it."""

    received: Received

    @cached_property
    def fields(self) -> Fields:
        return dict(json.loads(self.received.body))

    @property
    def api(self) -> Api:
        path = self.received.target.partition("?")[0]
        return next(api for api in APIS if api.path.partition("?")[0] == path)

    @property
    def is_summary(self) -> bool:
        return self.received.header("x-chat-proxy-purpose") == "summary"

    @cached_property
    def tokens(self) -> int:
        """The prompt's length by the model's own count."""
        read = {key: self.fields[key] for key in _READ if key in self.fields}
        return sum(map(tokenizer().count, texts_in(read))) + IMAGE_TOKENS * media_in(read)

    @property
    def output(self) -> int:
        """The output tokens that it asks for."""
        return max(int(self.fields.get(name) or 0) for name in _LIMITS)

    @property
    def summary(self) -> str:
        """Some lines of what it shows, as a summary."""
        read = [self.fields.get(key) for key in ("messages", "input")]
        given = "\n".join(texts_in(read)).partition("Do not answer or continue")[0]
        lines = (line.strip(" -#")[:LONGEST_LINE] for line in given.splitlines())
        return written(some_of([line for line in lines if line and not line.startswith("<<<")]))


async def answer(asked: Asked, line: Line, text: str, tokens: int | None = None) -> None:
    """Answer in the API's form, streamed if that is wished for, with the prompt's tokens."""
    count = asked.tokens if tokens is None else tokens
    if asked.fields.get("stream"):
        await begin_stream(line)
        for piece in _stream(asked.api, text, count):
            await line.chunk(piece)
        await line.chunk(b"")
    else:
        await answer_json(line, _whole(asked.api, text, count))


def _whole(api: Api, text: str, tokens: int) -> Fields:
    if api is CHAT:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": tokens, "completion_tokens": 6, "total_tokens": tokens + 6}
        return {**api.whole, "choices": [choice], "usage": usage}
    usage = {"input_tokens": tokens, "output_tokens": 6}
    if api is MESSAGES:
        return {**api.whole, "content": [{"type": "text", "text": text}], "usage": usage}
    (item,) = api.whole["output"]
    said = [{"type": "output_text", "text": text, "annotations": []}]
    return {**api.whole, "output": [{**item, "content": said}], "usage": usage}


def _stream(api: Api, text: str, tokens: int) -> list[bytes]:
    whole = _whole(api, text, tokens)
    if api is CHAT:
        usage = event({"choices": [], "usage": whole["usage"]})
        return [api.words(text), api.ends[0], usage, api.ends[1]]
    if api is MESSAGES:
        start = {**whole, "content": [], "stop_reason": None}
        return [named({"type": "message_start", "message": start}), api.words(text), *api.ends]
    ending = named({"type": "response.completed", "response": whole})
    return [*api.begins, api.words(text), ending]


Telling = Callable[[Asked, Line], Awaitable[None]]
Refusing = Callable[[Asked, Line], Awaitable[bool]]


@dataclass
class WireModel:
    """Answers chats of all APIs, and questions for summaries as `telling` tells them."""

    window: int | None = None
    telling: Telling | None = None
    refusing: Refusing | None = None
    """Answers what it refuses, and says whether it did."""
    owner: str = "vllm"
    chats: list[Asked] = field(default_factory=list)
    summaries: list[Asked] = field(default_factory=list)

    async def __call__(self, received: Received, line: Line) -> None:
        if received.method != "POST":
            card: Fields = {"object": "model", "owned_by": self.owner}
            card |= {"max_model_len": self.window} if self.window else {}
            cards = [{"id": name, **card} for name in NAMES]
            await answer_json(line, {"object": "list", "data": cards})
            return
        asked = Asked(received)
        (self.summaries if asked.is_summary else self.chats).append(asked)
        if self.refusing is not None and await self.refusing(asked, line):
            return
        if self.window is not None and asked.tokens + max(1, asked.output) > self.window:
            await answer_json(line, refusal(asked, self.window), 400)
        elif asked.is_summary:
            await (self.telling or tell)(asked, line)
        else:
            await answer(asked, line, "Well.")


def refusal(asked: Asked, window: int) -> Fields:
    """What vLLM 0.32 says to a request that is too long, alone or with its output."""
    if asked.tokens >= window:
        return overflow(window)
    output = asked.output
    words = (
        f"'max_tokens' or 'max_completion_tokens' is too large: {output}. This model's maximum "
        f"context length is {window} tokens and your request has {asked.tokens} input tokens "
        f"({output} > {window} - {asked.tokens}). (parameter=max_tokens, value={output})"
    )
    error = {"message": words, "type": "BadRequestError", "param": "max_tokens", "code": 400}
    return {"error": error}


async def tell(asked: Asked, line: Line) -> None:
    """Write a usable summary."""
    await answer(asked, line, asked.summary)


@dataclass
class Visitor(Meeting):
    """A client of one proxy that speaks any API."""

    server: WireModel

    async def say(self, api: Api, body: Fields | bytes, *headers: str) -> RawAnswer:
        """Send a request and return the answer."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.client.send(api.http(sent, *headers))
        return await self.client.answer()


@asynccontextmanager
async def visited(server: WireModel, **sections: Any) -> AsyncIterator[Visitor]:
    """Run such a model, a proxy and a client."""
    model: FakeModel
    proxy: Proxy
    client: RawClient
    async with (
        fake_model(server) as model,
        running_proxy(model.url, **sections) as proxy,
        raw_client(proxy) as client,
    ):
        yield Visitor(model, proxy, client, server)
