"""Three kinds of clients: through the proxy, with summaries of its own, dropping the oldest."""

from dataclasses import dataclass
from typing import Protocol

import aiohttp
import orjson

from bench.conversation.cache import PrefixCache
from bench.conversation.model import Call, ScriptedModel, Summarise
from bench.conversation.prompt import Json, Prompt, count
from bench.conversation.replay import post
from bench.conversation.sessions import MODEL
from bench.conversation.summarisers.request import CUE
from bench.conversation.systems import drop_oldest
from bench.conversation.toolbox import TOOLS

ANSWER_SHARE = 8
"""The window divided by this is asked for as answer, and for a client's own summary."""
OWN_THRESHOLD = 0.8
_OWN_INSTRUCTION = f"""\
{CUE}. Summarise it for the assistant who goes on with the work.

## Goal
## Constraints & Preferences
## Progress
### Done
### In Progress
### Blocked
## Key Decisions
## Next Steps
## Critical Context
## Relevant Files"""


class Sender(Protocol):
    """Sends a history, and knows what it was billed."""

    @property
    def calls(self) -> list[Call]:
        """What the model was asked."""
        ...

    async def send(self, history: list[Json]) -> Prompt | None:
        """Return the prompt that the model accepted, None if it refused all."""
        ...


@dataclass
class ThroughProxy:
    """Sends to the proxy's address; the model knows what arrived."""

    client: aiohttp.ClientSession
    url: str
    model: ScriptedModel

    @property
    def calls(self) -> list[Call]:
        """What the model was asked."""
        return self.model.calls

    async def send(self, history: list[Json]) -> Prompt | None:
        """Send, and wait until the proxy has done what it does behind the scenes."""
        body = orjson.dumps(_request(history, self.model.window))
        answered = await post(self.client, self.url, body)
        await self.model.idle()
        return self.model.last if answered else None


class Dropping:
    """Drops the oldest messages until the rest fits."""

    def __init__(self, window: int) -> None:
        self.calls: list[Call] = []
        self._window = window
        self._cache = PrefixCache()

    async def send(self, history: list[Json]) -> Prompt | None:
        """Return what is left of the history."""
        prompt = Prompt(drop_oldest(_request(history, self._window), self._window))
        self.calls.append(_call(prompt, self._cache))
        return prompt


class Summarising:
    """Asks for one summary of all it has when that grows too long, as agents do by themselves.

    It goes on with the instructions, the summary and the last turn.
    """

    def __init__(self, window: int, summarise: Summarise) -> None:
        self.calls: list[Call] = []
        self._window = window
        self._summarise = summarise
        self._cache = PrefixCache()
        self._summary: list[Json] = []
        self._start = 1

    async def send(self, history: list[Json]) -> Prompt | None:
        """Return the history behind the newest summary, after a new one if that was too long."""
        prompt = self._prompt(history)
        usable = self._window - self._window // ANSWER_SHARE
        if len(prompt.tokens) > OWN_THRESHOLD * usable:
            self._compact(prompt, history)
            prompt = self._prompt(history)
        self.calls.append(_call(prompt, self._cache))
        return prompt

    def _prompt(self, history: list[Json]) -> Prompt:
        messages = [history[0], *self._summary, *history[self._start :]]
        return Prompt(_request(messages, self._window))

    def _compact(self, prompt: Prompt, history: list[Json]) -> None:
        asked = [*prompt.messages, {"role": "user", "content": _OWN_INSTRUCTION}]
        question = Prompt(_request(asked, self._window))
        text = self._summarise(question) or ""
        self.calls.append(_call(question, self._cache, text))
        self._summary = [{"role": "user", "content": text}]
        users = [at for at, message in enumerate(history) if message["role"] == "user"]
        self._start = users[-1]


def _request(messages: list[Json], window: int) -> Json:
    answer = window // ANSWER_SHARE
    return {"model": MODEL, "messages": messages, "tools": TOOLS, "max_tokens": answer}


def _call(prompt: Prompt, cache: PrefixCache, summary: str | None = None) -> Call:
    cached = cache.take(prompt.tokens)
    written = count(summary or "")
    return Call(len(prompt.tokens), cached, written, summary is not None, broken_pairs=0)
