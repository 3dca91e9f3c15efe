"""Servers of the Messages API as local engines are: tolerant of parameters, or strict."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from anthropic import AsyncAnthropic
from anthropic.types.beta import BetaMessage

from tests.support.fake_model import Line, Received, answer_json, fake_model
from tests.support.live import Proxy, running_proxy
from tests.support.summary_model import overflow
from tests.support.wire_model import answer_on
from tests.support.wires.model import Asked

Fields = dict[str, Any]
Kind = Literal["vllm", "llama.cpp", "strict"]
KINDS: tuple[Kind, ...] = ("vllm", "llama.cpp", "strict")
NAME = "fake"
_FIELDS = frozenset(
    [
        "model",
        "messages",
        "system",
        "max_tokens",
        "stream",
        "tools",
        "tool_choice",
        "metadata",
        "thinking",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "output_config",
    ]
)
_BLOCKS = frozenset(
    ["text", "tool_use", "tool_result", "image", "thinking", "redacted_thinking", "document"]
)


@dataclass
class Engine:
    """One server: it counts its prompts, keeps to its window, and knows no compaction block."""

    kind: Kind = "vllm"
    window: int = 32_768
    says: str = "Well."
    chats: list[Asked] = field(default_factory=list)
    summaries: list[Asked] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def prompt(self) -> list[Fields]:
        """The messages that it was asked to answer last."""
        return list(self.chats[-1].fields["messages"])

    async def __call__(self, received: Received, line: Line) -> None:
        if received.method != "POST":
            await answer_json(line, {"object": "list", "data": [self._card()]})
            return
        if "count_tokens" in received.target:
            await answer_json(line, {"detail": "Not Found"}, 404)
            return
        asked = Asked(received)
        is_summary = asked.is_summary or asks_for_summary(asked.fields)
        (self.summaries if is_summary else self.chats).append(asked)
        if refusal := self._refusal(asked):
            self.refused.append(refusal["error"]["message"])
            await answer_json(line, refusal, 400)
            return
        text = asked.summary if is_summary else self.says
        path = received.target.partition("?")[0]
        await answer_on(path, line, text, asked.tokens, streams=bool(asked.fields.get("stream")))

    def _card(self) -> Fields:
        card: Fields = {"id": NAME, "object": "model"}
        if self.kind == "llama.cpp":
            return {**card, "owned_by": "llamacpp", "meta": {"n_ctx": self.window}}
        owner = "vllm" if self.kind == "vllm" else "somebody"
        return {**card, "owned_by": owner, "max_model_len": self.window}

    def _refusal(self, asked: Asked) -> Fields | None:
        unknown = sorted(asked.fields.keys() - _FIELDS)
        if unknown and self.kind == "strict":
            return _invalid(f"{unknown[0]}: Extra inputs are not permitted")
        for kind in _block_types(asked.fields["messages"]):
            if kind not in _BLOCKS:
                return _invalid(f"messages: Input tag '{kind}' does not match the expected tags")
        if asked.tokens < self.window:
            return None
        if self.kind != "llama.cpp":
            return overflow(self.window)
        words = "the request exceeds the available context size, try increasing it"
        numbers = {"n_prompt_tokens": asked.tokens, "n_ctx": self.window}
        kind = "exceed_context_size_error"
        return {"error": {"code": 400, "message": words, "type": kind, **numbers}}


def asks_for_summary(fields: Fields) -> bool:
    """Whether a gateway asks for a summary in its last message, whatever its words are."""
    items = fields.get("messages") or fields.get("input")
    last = items[-1] if type(items) is list and items else items
    return "summar" in json.dumps(last).lower()


def _invalid(message: str) -> Fields:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def _block_types(messages: list[Fields]) -> list[str]:
    # A gateway that translates to chat completions leaves out the content of a message with calls.
    contents = [message.get("content") for message in messages]
    lists = [content for content in contents if type(content) is list]
    return [block["type"] for content in lists for block in content]


@dataclass
class Desk:
    """The newest SDK before the proxy, and the engine behind it."""

    engine: Engine
    proxy: Proxy | None
    """None if another server than the proxy is asked."""
    sdk: Any  # an AsyncAnthropic: its parameters are typed dicts, ours are plain ones
    streams: bool = False
    """Whether answers are streams where nothing else is said."""

    async def ask(self, *, streams: bool | None = None, **fields: Any) -> Any:
        """Send a request by the SDK; return the message that it puts together."""
        asked = {"model": NAME, "max_tokens": 300, **fields}
        if self.streams if streams is None else streams:
            async with self.sdk.beta.messages.stream(**asked) as stream:
                message = await stream.get_final_message()
        else:
            message = await self.sdk.beta.messages.create(**asked)
        if self.proxy is not None:  # of other servers not all is as the SDK's types have it
            BetaMessage.model_validate(message.model_dump())
        return message


@asynccontextmanager
async def open_desk(
    engine: Engine, *, streams: bool = False, **sections: Any
) -> AsyncIterator[Desk]:
    """Run an engine, a proxy and the SDK."""
    async with (
        fake_model(engine) as model,
        running_proxy(model.url, **sections) as proxy,
        AsyncAnthropic(base_url=proxy.url, api_key="sk-test", max_retries=0) as sdk,
    ):
        yield Desk(engine, proxy, sdk, streams)


def said(number: int, words: int = 60) -> list[Fields]:
    """A question and its answer."""
    return [
        {"role": "user", "content": f"Question {number}: " + "what about it? " * words},
        {"role": "assistant", "content": f"Answer {number}: " + "so it is. " * words},
    ]


def chat(turns: int, words: int = 60) -> list[Fields]:
    """A conversation of questions and answers, and one more question."""
    told = [message for number in range(turns) for message in said(number, words)]
    return [*told, {"role": "user", "content": "And now?"}]


def used(number: int, tool: str = "read", output: str = "") -> list[Fields]:
    """A call of a tool and its result."""
    name = f"toolu_{number}"
    call = {"type": "tool_use", "id": name, "name": tool, "input": {"path": f"file_{number}.txt"}}
    text = output or "".join(f"line {at} of file {number}\n" for at in range(60))
    result = {"type": "tool_result", "tool_use_id": name, "content": text}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def run(steps: int, *tools: str) -> list[Fields]:
    """A task and so many uses of tools, which take turns."""
    names = tools or ("read",)
    done = [it for at in range(steps) for it in used(at, names[at % len(names)])]
    return [{"role": "user", "content": "Read all files."}, *done]


def dumped(message: Any) -> Fields:
    """A message of the SDK as it is sent back."""
    content = [block.model_dump(exclude_none=True) for block in message.content]
    return {"role": "assistant", "content": content}
