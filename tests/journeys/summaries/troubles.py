"""Conversations that need a summary, and proxies whose summary model is in trouble."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from chat_proxy.proxy.session.recognition.checkpoints import KIND
from chat_proxy.proxy.summaries.jobs import BREAKER_FAILURES, BREAKER_SECONDS, PREPARED
from chat_proxy.upstream.breaker import Breakers
from tests.support.conversations import Heard, listening
from tests.support.live import RawAnswer, chat_request
from tests.support.meeting import Meeting
from tests.support.summary_model import Question, SummaryModel, Telling, summarising
from tests.unit.chat.shapes import Fields, says, system, user

WINDOW = 8_000
TRIGGER = 5_600
SECRET_WORD = "zebrafinch"
FRAME = "<earlier-conversation>"
FRAME_END = "</earlier-conversation>"
UPDATE = "An earlier summary stands at the beginning"

RULES = system("House rules: answer in one line, never name the vault.")


def chatter(tokens: int, name: object = "") -> str:
    """Return about so many tokens that are like no other name's."""
    sentences = (f"In note {number} of {name} there is {SECRET_WORD}." for number in range(999))
    lines = (next(sentences) for _ in range(max(1, tokens // 14)))
    return " ".join(lines)


def history(turns: int = 20, name: str = "a", tokens: int = 160) -> list[Fields]:
    """Return rules, so many turns of about twice so many tokens, and a question at the end."""
    told: list[Fields] = [RULES]
    for number in range(turns):
        told += [
            user(chatter(tokens, f"{name}{number}?")),
            says(chatter(tokens, f"{name}{number}!")),
        ]
    return [*told, user(f"And what now, {name}?")]


@dataclass
class Trouble:
    """A proxy, its client and its models; failures are timed by `now`."""

    met: Meeting
    brain: SummaryModel
    heard: Heard
    now: float = 1_000.0
    bodies: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        summaries = self.met.proxy.services.compaction.summaries.jobs
        summaries._clock = lambda: self.now
        summaries.breakers = Breakers(BREAKER_FAILURES, BREAKER_SECONDS, lambda: self.now)

    async def ask(self, messages: Sequence[Fields], *headers: str, **fields: Any) -> RawAnswer:
        """Send a history; whatever is wrong with summaries, it is answered."""
        body = json.dumps({"model": "fake", "messages": messages, **fields}).encode()
        self.bodies.append(body)
        await self.met.client.send(chat_request(body, *headers))
        answer = await self.met.client.answer()
        assert answer.status == 200, answer.body
        return answer

    @property
    def sent(self) -> list[Fields]:
        """The messages of the last chat that the model was asked."""
        return self.brain.chats[-1].messages

    @property
    def is_unchanged(self) -> bool:
        """Whether the model got the very bytes that the client sent."""
        return self.brain.chats[-1].received.body == self.bodies[-1]

    @property
    def questions(self) -> list[Question]:
        """What was asked for summaries so far."""
        return self.brain.summaries

    @property
    def kept(self) -> list[str]:
        """The kinds of what the store has about histories."""
        rows = self.met.proxy.services.store._store._rows._entries  # type: ignore[attr-defined]
        return [kind for kind, _ in rows if kind in (KIND, PREPARED)]

    def failures(self, reason: str) -> float:
        """Return how often there was no summary for this reason."""
        return self.met.figure(f'chat_proxy_summaries_fail_total{{reason="{reason}"}}')


def outcome(answer: RawAnswer) -> str:
    """What the proxy says it did."""
    return answer.headers["x-chat-proxy-compaction"]


def is_passed_by(trouble: Trouble, answered: RawAnswer) -> bool:
    """Tell whether the request went on as it was, with nothing kept of the attempt."""
    return outcome(answered) == "failed-open" and trouble.is_unchanged and not trouble.kept


def folded_text(messages: list[Fields]) -> str:
    """Return the text of the one message that stands for the older ones."""
    (found,) = [message for message in messages if FRAME in str(message["content"])]
    assert found["role"] == "user"
    return str(found["content"])


@asynccontextmanager
async def troubled(
    telling: Telling | None = None, *, window: int | None = None, **sections: Any
) -> AsyncIterator[Trouble]:
    """Let a proxy meet a model that tells summaries so; nothing is prepared behind the scenes.

    A request over the trigger waits for its summary, unless a test says otherwise.
    Whatever happens, no word of a conversation is in the log.
    """
    brain = SummaryModel(telling, window=window)
    sections["budget"] = {"context_window": WINDOW, "prepare": 1, **sections.get("budget", {})}
    sections["summary"] = {"timeout_seconds": 20, "wait": "trigger", **sections.get("summary", {})}
    with listening() as heard:
        async with summarising(brain, **sections) as met:
            yield Trouble(met, brain, heard)
        assert SECRET_WORD not in heard.text
