"""A model server that cuts prompts to its window, answers 200 and never says so."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tests.journeys.replay.small_server import Guest, SmallServer, guest_of
from tests.support.fake_model import Line, Received, fake_model
from tests.support.summary_model import Question, Telling, answer, good

OLLAMA = "library"
"""The owner that Ollama names in its list of models."""


@dataclass(frozen=True)
class Cut(Question):
    """A prompt of which only so many tokens are left."""

    left: int = 0

    @cached_property
    def tokens(self) -> int:
        return self.left


@dataclass
class TruncatingServer(SmallServer):
    """Answers whatever it is asked, from the end of it if it is too long, as Ollama does."""

    num_ctx: int = 4_096
    owner: str = OLLAMA
    keeps_half: bool = True
    """Whether half the window and two tokens are kept, or the whole window."""
    drops_messages: bool = False
    """Whether whole messages are dropped, the oldest first, and not the instructions."""
    reports: list[int] = field(default_factory=list)
    """The tokens of each chat that the model saw."""
    others: dict[int, Telling] = field(default_factory=dict)
    """How chats are answered instead, by their number from 0."""

    async def __call__(self, received: Received, line: Line) -> None:
        if received.method != "POST":
            await super().__call__(received, line)
            return
        whole = Question(received, self.factor)
        cut = Cut(received, self.factor, self.left_of(whole))
        if whole.is_summary:
            self.summaries.append(whole)
            await (self.telling or good)(cut, line)
            return
        self.chats.append(whole)
        self.reports.append(cut.tokens)
        if other := self.others.get(len(self.chats) - 1):
            await other(cut, line)
        else:
            await answer(cut, line, f"Well. {len(self.chats)}")

    def left_of(self, whole: Question) -> int:
        """Return the tokens that are left of a prompt."""
        if whole.tokens < self.num_ctx:
            return whole.tokens
        if self.drops_messages:
            first, *others = whole.messages
            while len(others) > 1:
                others.pop(0)
                body = json.dumps({**whole.fields, "messages": [first, *others]}).encode()
                rest = Question(replace(whole.received, body=body), self.factor)
                if rest.tokens < self.num_ctx:
                    return rest.tokens
        return self.num_ctx // 2 + 2 if self.keeps_half else self.num_ctx - 1

    def seen(self, number: int = -1) -> str:
        """Return what the model saw of a chat: its end."""
        prompt = "\n".join(self.chats[number].texts)
        share = self.reports[number] / self.chats[number].tokens
        return prompt[-int(len(prompt) * share) :]

    def _cards(self) -> Iterator[dict[str, Any]]:
        for name in self.names:
            yield {"id": name, "object": "model", "owned_by": self.owner}


@asynccontextmanager
async def guest_of_truncating(
    server: TruncatingServer, window: int | None = None, **sections: Any
) -> AsyncIterator[Guest]:
    """Run a proxy before this server and visit it; by default no window is known to it."""
    async with fake_model(server) as model, guest_of(server, model, window, **sections) as guest:
        yield guest


def truncations(guest: Guest, result: str) -> float:
    """How often a truncated prompt was noticed, and ended so."""
    return guest.figure(f'chat_proxy_silent_truncation_total{{result="{result}"}}')
