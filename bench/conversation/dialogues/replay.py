"""A dialogue sent through the proxy, and what of it was in the prompt at some points."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from bench.conversation.cache import PrefixCache
from bench.conversation.dialogues.data import Dialogue
from bench.conversation.dialogues.evidence import Evidence
from bench.conversation.model import Call, ScriptedModel
from bench.conversation.prompt import Json, Prompt, text_of
from bench.conversation.replay import client_session, post, price
from bench.conversation.systems import drop_oldest

# One prompt says little: it may be the last one before a fold, or the first one after it.
POINTS = tuple(percent / 100 for percent in range(50, 101, 5))


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions at one point: how many, and how many each one's prompt could answer."""

    questions: int
    by_proxy: int
    by_drop_oldest: int


@dataclass
class Outcome:
    """What the proxy did with one dialogue in one window, and what dropping would have done."""

    dialogue: str
    window: int
    requests: int = 0
    refused: int = 0
    last_tokens: int = 0
    asked: list[Asked] = field(default_factory=list)
    """At each of the points; the last is the dialogue's end."""
    calls: list[Call] = field(default_factory=list)
    drop_calls: list[Call] = field(default_factory=list)

    @property
    def billed(self) -> float:
        """What the proxy's requests cost, side-queries included."""
        return price(self.calls)

    @property
    def drop_billed(self) -> float:
        """What the same requests cost when the oldest messages are dropped."""
        return price(self.drop_calls)

    @property
    def side_queries(self) -> int:
        """How many side-queries were answered."""
        return sum(call.is_side_query for call in self.calls)


async def replay(dialogue: Dialogue, window: int, model: ScriptedModel, url: str) -> Outcome:
    """Send a dialogue's requests one after the other, and ask at the points."""
    asked = dialogue.requests()
    outcome = Outcome(dialogue.name, window, requests=len(asked))
    evidence = Evidence(dialogue.turns)
    pauses = [int(len(asked) * point) - 1 for point in POINTS]
    async with client_session() as client:
        for number, request in enumerate(asked):
            outcome.refused += not await post(client, url, orjson.dumps(request))
            await model.idle()
            for _ in range(pauses.count(number)):
                questions = dialogue.questions_about(len(request["messages"]))
                ours = evidence.answered(questions, said_in(model.last))
                dropped = drop_oldest(request, window)["messages"]
                theirs = evidence.answered(questions, _joined(dropped))
                outcome.asked.append(Asked(len(questions), ours, theirs))
    outcome.calls = model.calls
    outcome.drop_calls = dropping(asked, window)
    outcome.last_tokens = len(model.last.tokens) if model.last else 0
    return outcome


def dropping(requests: Iterable[Json], window: int) -> list[Call]:
    """Return the calls of a client that drops its oldest messages to fit the window."""
    cache = PrefixCache()
    prompts = (Prompt(drop_oldest(request, window)).tokens for request in requests)
    return [
        Call(len(prompt), cache.take(prompt), 0, is_side_query=False, broken_pairs=0)
        for prompt in prompts
    ]


def said_in(prompt: Prompt | None) -> str:
    """Return the text of a prompt's messages, without tools."""
    return _joined(prompt.messages) if prompt else ""


def _joined(messages: list[Json]) -> str:
    return "\n".join(map(text_of, messages))
