"""Clients of other gateways that compact: they ask for it in each request, in the gateway's API."""

from dataclasses import dataclass, field

import aiohttp
import orjson

from bench.conversation.model import Call, ScriptedModel
from bench.conversation.prompt import Json, Prompt, text_of
from bench.conversation.replay import HEADERS
from bench.conversation.responses import items_of
from bench.conversation.senders import ANSWER_SHARE, OWN_THRESHOLD
from bench.conversation.sessions import MODEL

LITELLM_LEAST_TRIGGER = 50_000
"""LiteLLM answers 400 to a lower trigger of its compaction."""
MAX_TOKENS = 256


@dataclass
class ThroughResponses:
    """Sends what is new to a gateway that keeps the conversation, with its compaction on.

    The model answers with what was recorded, so that the gateway's history is the recording.
    """

    client: aiohttp.ClientSession
    url: str
    model: ScriptedModel
    options: Json
    headers: dict[str, str] = field(default_factory=dict)
    _sent: int = 1
    _previous: str | None = None

    @property
    def calls(self) -> list[Call]:
        """What the model was asked."""
        return self.model.calls

    async def send(self, history: list[Json]) -> Prompt | None:
        """Send the messages since the last answer; a refused one is sent again with the next."""
        usable = self.model.window - self.model.window // ANSWER_SHARE
        threshold = int(OWN_THRESHOLD * usable)
        body: Json = {
            "model": MODEL,
            "instructions": text_of(history[0]),
            "input": items_of(self._new(history)),
            "context_management": [{"type": "compaction", "compact_threshold": threshold}],
        }
        if tools := self.options.get("tools"):
            body["tools"] = [{"type": "function", **tool["function"]} for tool in tools]
        if self._previous:
            body["previous_response_id"] = self._previous
        headers = {**HEADERS, **self.headers}
        async with self.client.post(f"{self.url}/v1/responses", json=body, headers=headers) as it:
            answer = await it.json() if it.status == 200 else None
        await self.model.idle()
        if answer is None:
            return None
        self._previous, self._sent = answer["id"], len(history)
        return self.model.last

    def _new(self, history: list[Json]) -> list[Json]:
        """Return the messages that the gateway does not have; its own answer is among those."""
        new = history[self._sent :]
        is_known = self._previous and new[0]["role"] == "assistant" and not new[0].get("tool_calls")
        return new[1:] if is_known else new


@dataclass
class ThroughMessages:
    """Sends the whole history in Anthropic's form to LiteLLM, with its compaction on."""

    client: aiohttp.ClientSession
    url: str
    model: ScriptedModel
    options: Json
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def calls(self) -> list[Call]:
        """What the model was asked."""
        return self.model.calls

    async def send(self, history: list[Json]) -> Prompt | None:
        """Send, with the lowest trigger that the gateway accepts."""
        trigger = {"type": "input_tokens", "value": LITELLM_LEAST_TRIGGER}
        body: Json = {
            "model": MODEL,
            "max_tokens": MAX_TOKENS,
            "system": text_of(history[0]),
            "messages": [_in_blocks(message) for message in history[1:]],
            "context_management": {"edits": [{"type": "compact_20260112", "trigger": trigger}]},
        }
        if tools := self.options.get("tools"):
            functions = [tool["function"] for tool in tools]
            body["tools"] = [
                {"name": it["name"], "input_schema": it["parameters"]} for it in functions
            ]
        headers = {**HEADERS, **self.headers}
        async with self.client.post(f"{self.url}/v1/messages", json=body, headers=headers) as it:
            await it.read()
            answered = it.status == 200
        await self.model.idle()
        return self.model.last if answered else None


def _in_blocks(message: Json) -> Json:
    """Return a chat message in the form of the Messages API."""
    if message["role"] == "tool":
        result = {"tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"role": "user", "content": [{"type": "tool_result", **result}]}
    calls = message.get("tool_calls") or []
    if not calls:
        return {"role": message["role"], "content": message["content"]}
    said = [{"type": "text", "text": message["content"]}] if message.get("content") else []
    used = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": orjson.loads(call["function"]["arguments"]),
        }
        for call in calls
    ]
    return {"role": "assistant", "content": [*said, *used]}
