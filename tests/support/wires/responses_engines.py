"""Servers of the Responses API that know nothing of contracts, each in its own way."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import openai
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from chat_proxy.wires.answers import Reply
from chat_proxy.wires.responses.answers import ResponsesAnswers
from tests.support.fake_model import Line, Received, answer_json, begin_stream, fake_model
from tests.support.live import running_proxy
from tests.support.wire_model import (
    PROMPT_FIELDS,
    answer_on,
    history_of,
    summary_of,
    tokens_in,
)
from tests.support.wires.messages_engines import asks_for_summary

Fields = dict[str, Any]
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
SECONDS_TO_ANSWER = 30
KNOWN_FIELDS = frozenset(
    {
        *("model", "input", "instructions", "stream", "store", "tools", "tool_choice", "user"),
        *("max_output_tokens", "temperature", "parallel_tool_calls", "reasoning", "metadata"),
        *("prompt_cache_key", "safety_identifier"),
    }
)
KNOWN_ITEMS = frozenset({None, "message", "function_call", "function_call_output", "reasoning"})
STRICT = "context_management: Extra inputs are not permitted"
NO_ITEM = "Cannot determine type of 'item'"


@dataclass
class Engine:
    """A server that answers whole and streamed as the API does, and writes summaries.

    `vllm` ignores what it does not know, `llama.cpp` refuses items that it does not know, `strict`
    refuses fields too.
    """

    kind: str = "vllm"
    window: int = 16_000
    writes_summaries: bool = True
    bodies: list[bytes] = field(default_factory=list)
    summaries: list[Fields] = field(default_factory=list)

    @property
    def last(self) -> Fields:
        """The last request that was not for a summary."""
        found: Fields = json.loads(self.bodies[-1])
        return found

    def refusal(self, body: Fields) -> str:
        """Return why a request is refused; empty if it is not."""
        given = body.get("input")
        kinds = {item.get("type") for item in given} if isinstance(given, list) else set()
        if self.kind == "strict" and set(body) - KNOWN_FIELDS:
            return STRICT
        if self.kind != "vllm" and kinds - KNOWN_ITEMS:
            return NO_ITEM
        return ""

    async def __call__(self, received: Received, line: Line) -> None:
        if received.method != "POST":
            card = {"id": "fake", "object": "model", "owned_by": "vllm"}
            cards = [{**card, "max_model_len": self.window}]
            await answer_json(line, {"object": "list", "data": cards})
            return
        body = json.loads(received.body)
        path = received.target.partition("?")[0]
        if not path.endswith(("/responses", "/chat/completions")):
            await answer_json(line, {"detail": "Not Found"}, 404)
            return
        is_own = received.header("x-chat-proxy-purpose") == "summary"
        is_summary = is_own or asks_for_summary(body)
        if is_summary:
            self.summaries.append(body)
        else:
            self.bodies.append(received.body)
        refusal = self.refusal(body)
        if is_summary and not self.writes_summaries:
            refusal = "no summaries here"
        if refusal:
            error = {"message": refusal, "type": "invalid_request_error", "code": 400}
            await answer_json(line, {"error": error}, 400)
            return
        tokens = tokens_in({name: body[name] for name in PROMPT_FIELDS if name in body})
        text = summary_of(received.body) if is_summary else "Well."
        streams = bool(body.get("stream"))
        if path.endswith("/chat/completions"):  # a gateway that translates
            await answer_on(path, line, text, tokens, streams=streams)
        else:
            await self._answer(line, text, tokens, streams=streams)

    async def _answer(self, line: Line, text: str, tokens: int, *, streams: bool) -> None:
        # A gateway that stores answers wants every id to be new.
        form, reply = ResponsesAnswers(), Reply(text, "fake", uuid4().hex, 1)
        used = b'"input_tokens":%d,' % tokens
        if not streams:
            document = form.whole_reply(reply).replace(b'"input_tokens":0,', used)
            await answer_json(line, json.loads(document))
            return
        await begin_stream(line)
        stream = form.streamed_reply(reply).replace(b'"input_tokens":0,', used)
        for start in range(0, len(stream), 700):  # events come in pieces
            await line.chunk(stream[start : start + 700])
        await line.chunk(b"")


@dataclass
class Desk:
    """An engine, a server in front of it, and the SDK."""

    engine: Engine
    url: str
    streams: bool = False
    """Whether `ask` has its answers streamed."""
    is_strict: bool = False
    """Whether all that comes must be as the SDK's types have it."""
    events: list[Any] = field(default_factory=list)
    """The events of the last streamed answer."""
    _open: dict[str, Any] = field(default_factory=dict)

    def sdk(self, key: str = "sk-one") -> Any:  # an AsyncOpenAI: its parameters are typed dicts
        """The SDK of one tenant."""
        if key not in self._open:
            url = f"{self.url}/v1"
            self._open[key] = openai.AsyncOpenAI(
                base_url=url, api_key=key, max_retries=0, timeout=SECONDS_TO_ANSWER
            )
        return self._open[key]

    async def ask(self, key: str = "sk-one", **fields: Any) -> Any:
        """Send a request by the SDK; return the response, or the one at the end of its events."""
        asked = {"model": "fake", "store": False, **fields}
        if not self.streams:
            answer = await self.sdk(key).responses.create(**asked)
        else:
            stream = await self.sdk(key).responses.create(stream=True, **asked)
            self.events = [event async for event in stream]
            answer = self.events[-1].response
        if self.is_strict:
            Response.model_validate(answer.model_dump())
            for event in self.events:
                EVENT.validate_python(event.model_dump())
        return answer

    async def close(self) -> None:
        """Close what was opened."""
        for sdk in self._open.values():
            await sdk.close()


@asynccontextmanager
async def open_desk(
    kind: str = "vllm", engine: Engine | None = None, *, streams: bool = False, **sections: Any
) -> AsyncIterator[Desk]:
    """Start an engine of a kind, or this one, and a proxy before it."""
    engine = engine or Engine(kind)
    async with fake_model(engine) as model, running_proxy(model.url, **sections) as proxy:
        desk = Desk(engine, proxy.url, streams, is_strict=True)
        try:
            yield desk
        finally:
            await desk.close()


def talk(turns: int = 12) -> list[Any]:
    """A conversation as the items of an input; it has about 500 tokens in each turn."""
    items: list[Any] = history_of("responses", turns)["input"]
    return items


def management(threshold: int | None = 2_000) -> list[Any]:
    """The parameter that asks for compaction."""
    entry: Fields = {"type": "compaction"}
    return [entry if threshold is None else {**entry, "compact_threshold": threshold}]


TRIGGER: Any = {"type": "compaction_trigger"}


def dumped(output: list[Any]) -> list[Any]:
    """Output items as a client sends them back."""
    return [item.model_dump(exclude_none=True, warnings=False) for item in output]
