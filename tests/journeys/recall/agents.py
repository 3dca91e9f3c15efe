"""An agent with a long history behind it, on each wire, by the official SDKs."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.support.fake_model import FakeModel, fake_model
from tests.support.live import Proxy, running_proxy
from tests.support.recall_model import ScriptedModel

Fields = dict[str, Any]
WIRES = ("chat", "responses", "messages")
TOOL = {
    "name": "read_file",
    "description": "Read a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
NEEDLE = "value_3_12 = 48213"
NEEDLE_STEP = 3


def steps(count: int = 16, *, lines: int = 24) -> list[Fields]:
    """A task and many steps in the words of chat; one result of the first ones has the needle."""
    said: list[Fields] = [{"role": "user", "content": "Find out how the parser is deployed."}]
    for step in range(count):
        path = f"src/part_{step}.py"
        function = {"name": "read_file", "arguments": json.dumps({"path": path})}
        call = {"id": f"call_{step}", "type": "function", "function": function}
        said.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = [f"line {at} of {path}: value_{step}_{at} = {step * at}" for at in range(lines)]
        if step == NEEDLE_STEP:
            text[12] = f"line 12 of {path}: {NEEDLE}"
        said.append({"role": "tool", "tool_call_id": call["id"], "content": "\n".join(text)})
    said += [
        {"role": "assistant", "content": "I have read all of it."},
        {"role": "user", "content": "Which port does the staging server have?"},
    ]
    return said


NEEDLE_NUMBER = 1 + 2 + 2 * NEEDLE_STEP
"""The number of the message with the needle: the instructions come first, on every wire."""


@dataclass
class Answered:
    """What a client has of an answer."""

    text: str
    calls: list[tuple[str, Fields]]
    usage: tuple[int, int]
    items: list[Fields]
    """The answer as the client sends it back."""
    is_cut: bool = False
    """Whether the answer has reached its longest length."""


@dataclass
class Agent:
    """A client of one wire with its history in the form of that wire."""

    wire: str
    proxy: Proxy
    model: FakeModel
    history: list[Fields]
    options: Fields = field(default_factory=dict)
    """Further fields of its requests."""

    async def ask(self, *, stream: bool) -> Answered:
        """Send the history and add the answer to it."""
        asks = {"chat": self._chat, "responses": self._responses, "messages": self._messages}
        answered = await asks[self.wire](stream=stream)
        self.history += answered.items
        return answered

    def add_user(self, text: str) -> None:
        """Add what the user says."""
        self.history.append({"role": "user", "content": text})

    def add_result(self, call: str, text: str) -> None:
        """Add the result of a call."""
        if self.wire == "chat":
            self.history.append({"role": "tool", "tool_call_id": call, "content": text})
        elif self.wire == "responses":
            self.history.append({"type": "function_call_output", "call_id": call, "output": text})
        else:
            block = {"type": "tool_result", "tool_use_id": call, "content": text}
            self.history.append({"role": "user", "content": [block]})

    def _openai(self) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.proxy.url}/v1", api_key="key", max_retries=0)

    async def _chat(self, *, stream: bool) -> Answered:
        async with self._openai() as client:
            options: Fields = {
                "model": "fake",
                "messages": [{"role": "system", "content": "Be brief."}, *self.history],
                "tools": [{"type": "function", "function": TOOL}],
                **self.options,
            }
            if stream:
                async with client.chat.completions.stream(
                    **options, stream_options={"include_usage": True}
                ) as events:
                    async for _ in events:
                        pass
                    completion: Any = await events.get_final_completion()
            else:
                completion = await client.chat.completions.create(**options)
        message, usage = completion.choices[0].message, completion.usage
        assert usage is not None
        calls = [(it.id, json.loads(it.function.arguments)) for it in message.tool_calls or ()]
        reason = completion.choices[0].finish_reason
        assert reason in ("length", "tool_calls" if calls else "stop")
        native = message.model_dump(exclude_none=True, exclude={"parsed"})
        for call in native.get("tool_calls", ()):
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        return Answered(
            message.content or "",
            calls,
            (usage.prompt_tokens, usage.completion_tokens),
            [native],
            reason == "length",
        )

    async def _responses(self, *, stream: bool) -> Answered:
        async with self._openai() as client:
            options: Fields = {
                "model": "fake",
                "instructions": "Be brief.",
                "input": self.history,
                "tools": [{"type": "function", **TOOL, "strict": False}],
                "store": False,
                **self.options,
            }
            if stream:
                numbers, created = [], 0
                async with client.responses.stream(**options) as events:
                    async for it in events:
                        numbers.append(it.sequence_number)
                        created += it.type == "response.created"
                    response: Any = await events.get_final_response()
                assert numbers == list(range(len(numbers)))
                assert created == 1
            else:
                response = await client.responses.create(**options)
        assert response.usage is not None
        items = [it.model_dump(exclude_none=True) for it in response.output]
        for item in items:
            item.pop("parsed_arguments", None)
            for part in item.get("content") or ():
                part.pop("parsed", None)
        calls = [
            (it.call_id, json.loads(it.arguments))
            for it in response.output
            if it.type == "function_call"
        ]
        usage = (response.usage.input_tokens, response.usage.output_tokens)
        is_cut = response.status == "incomplete"
        return Answered(response.output_text, calls, usage, items, is_cut)

    async def _messages(self, *, stream: bool) -> Answered:
        url = self.proxy.url
        async with AsyncAnthropic(base_url=url, api_key="key", max_retries=0) as client:
            tool = {"name": TOOL["name"], "description": TOOL["description"]}
            options: Fields = {
                "model": "fake",
                "system": "Be brief.",
                "max_tokens": 300,
                "messages": self.history,
                "tools": [{**tool, "input_schema": TOOL["parameters"]}],
                **self.options,
            }
            if stream:
                async with client.messages.stream(**options) as events:
                    async for _ in events:
                        pass
                    message: Any = await events.get_final_message()
            else:
                message = await client.messages.create(**options)
        blocks = [block.model_dump(exclude_none=True) for block in message.content]
        for block in blocks:
            block.pop("parsed_output", None)
            block.pop("caller", None)
        calls = [(it.id, dict(it.input)) for it in message.content if it.type == "tool_use"]
        reason = message.stop_reason
        assert reason in ("max_tokens", "tool_use" if calls else "end_turn")
        text = "".join(it.text for it in message.content if it.type == "text")
        usage = (message.usage.input_tokens, message.usage.output_tokens)
        items: list[Fields] = [{"role": "assistant", "content": blocks}]
        return Answered(text, calls, usage, items, reason == "max_tokens")


def history_on(wire: str, said: list[Fields]) -> list[Fields]:
    """Messages of chat in the form of a wire."""
    if wire == "chat":
        return said
    if wire == "responses":
        return [item for message in said for item in _items_of(message)]
    return [_blocks_of(message) for message in said]


def _items_of(message: Fields) -> list[Fields]:
    if message["role"] == "tool":
        call = message["tool_call_id"]
        return [{"type": "function_call_output", "call_id": call, "output": message["content"]}]
    if "tool_calls" in message:
        return [
            {"type": "function_call", "call_id": it["id"], **it["function"]}
            for it in message["tool_calls"]
        ]
    return [{"type": "message", "role": message["role"], "content": message["content"]}]


def _blocks_of(message: Fields) -> Fields:
    if message["role"] == "tool":
        call = message["tool_call_id"]
        block = {"type": "tool_result", "tool_use_id": call, "content": message["content"]}
        return {"role": "user", "content": [block]}
    if "tool_calls" in message:
        calls = [
            {
                "type": "tool_use",
                "id": it["id"],
                "name": it["function"]["name"],
                "input": json.loads(it["function"]["arguments"]),
            }
            for it in message["tool_calls"]
        ]
        return {"role": "assistant", "content": calls}
    return message


@asynccontextmanager
async def agent_on(
    wire: str, brain: ScriptedModel, said: list[Fields] | None = None, **sections: Any
) -> AsyncIterator[Agent]:
    """An agent with a long history, a proxy with recall and a scripted model.

    Every prompt that the model got must be valid by the rules of its API.
    """
    sections.setdefault("recall", {"enabled": True})
    async with (
        fake_model(brain) as model,
        running_proxy(model.url, **sections) as proxy,
    ):
        yield Agent(wire, proxy, model, history_on(wire, said or steps()))
    assert brain.violations == []
