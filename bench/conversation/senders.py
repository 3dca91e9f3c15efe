"""Ways to send a growing history: through a proxy, whole, with own summaries, oldest dropped."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
import orjson

from bench.conversation.cache import PrefixCache
from bench.conversation.model import Call, ScriptedModel, Summarise
from bench.conversation.prompt import Json, Prompt, broken_pairs, count, rendered
from bench.conversation.replay import refusal_of
from bench.conversation.sessions import MODEL
from bench.conversation.summarisers.request import CUE
from bench.conversation.systems import drop_oldest

ANSWER_SHARE = 8
"""The window divided by this is the reserve for an answer, and for a client's own summary."""
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
    options: Json
    """The fields of a request beside model and messages."""
    headers: dict[str, str] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    """Status and code of what was refused."""

    @property
    def calls(self) -> list[Call]:
        """What the model was asked."""
        return self.model.calls

    async def send(self, history: list[Json]) -> Prompt | None:
        """Send, and wait until the proxy has done what it does behind the scenes."""
        body = orjson.dumps(_request(history, self.options))
        refusal = await refusal_of(self.client, self.url, body, self.headers)
        await self.model.idle()
        if refusal:
            self.refusals[refusal] += 1
        return None if refusal else self.model.last


@dataclass
class Recalling(ThroughProxy):
    """The same with a model that searches for what its prompt does not have."""

    searches: int = 0
    spent: int = 0
    """The tokens that the results of its searches added to prompts."""

    async def recalled(self, history: list[Json], words: str) -> str:
        """Return the prompt of the answer to a history before which the model searched."""
        before = len(self.model.calls)
        self.model.looks_for = words
        await self.send(history)
        self.model.looks_for = ""
        sent = [call.sent for call in self.model.calls[before:] if not call.is_side_query]
        self.searches += len(sent) > 1
        self.spent += sent[-1] - sent[0] if len(sent) > 1 else 0
        return "\n".join(map(rendered, self.model.last.messages)) if self.model.last else ""


class Whole:
    """Sends the whole history to a model without a limit."""

    def __init__(self, options: Json) -> None:
        self.calls: list[Call] = []
        self._options = options
        self._cache = PrefixCache()

    async def send(self, history: list[Json]) -> Prompt | None:
        """Return the history."""
        prompt = Prompt(_request(history, self._options))
        self.calls.append(_call(prompt, self._cache))
        return prompt


class Dropping:
    """Drops the oldest messages until the rest fits."""

    def __init__(self, window: int, options: Json) -> None:
        self.calls: list[Call] = []
        self._window = window
        self._options = options
        self._cache = PrefixCache()

    async def send(self, history: list[Json]) -> Prompt | None:
        """Return what is left of the history."""
        prompt = Prompt(drop_oldest(_request(history, self._options), self._window))
        self.calls.append(_call(prompt, self._cache))
        return prompt


class Summarising:
    """Asks for one summary of all it has when that grows too long, as agents do by themselves.

    It goes on with the instructions, the summary and the last turn.
    """

    def __init__(self, window: int, summarise: Summarise, options: Json) -> None:
        self.calls: list[Call] = []
        self._window = window
        self._summarise = summarise
        self._options = options
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
        if len(prompt.tokens) >= self._window:
            return None
        self.calls.append(_call(prompt, self._cache))
        return prompt

    def _prompt(self, history: list[Json]) -> Prompt:
        messages = [history[0], *self._summary, *history[self._start :]]
        return Prompt(_request(messages, self._options))

    def _compact(self, prompt: Prompt, history: list[Json]) -> None:
        asked = [*prompt.messages, {"role": "user", "content": _OWN_INSTRUCTION}]
        options = {**self._options, "max_tokens": self._window // ANSWER_SHARE}
        question = Prompt(_request(asked, options))
        text = self._summarise(question) or ""
        self.calls.append(_call(question, self._cache, text))
        self._summary = [{"role": "user", "content": text}]
        users = [at for at, message in enumerate(history) if message["role"] == "user"]
        self._start = users[-1]


def _request(messages: list[Json], options: Json) -> Json:
    return {"model": MODEL, "messages": messages, **options}


def _call(prompt: Prompt, cache: PrefixCache, summary: str | None = None) -> Call:
    cached = cache.take(prompt.tokens)
    is_side_query = summary is not None
    pairs = 0 if is_side_query else broken_pairs(prompt.messages)
    return Call(len(prompt.tokens), cached, count(summary or ""), is_side_query, pairs)
