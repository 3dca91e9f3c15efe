"""A session sent until its facts were folded often enough, and what the prompts had of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.conversation.loss.facts import Fact, Kind
from bench.conversation.loss.folds import FoldAges, unseen_share
from bench.conversation.loss.script import Script
from bench.conversation.prompt import Json, Prompt, rendered
from bench.conversation.replay import price
from bench.conversation.senders import Recalling, Sender

MOST_REQUESTS = 1_500

Moments = dict[int, dict[Fact, int]]
"""The requests at which facts were asked for, and after how many folds each was."""


@dataclass(frozen=True)
class Case:
    """A session in a window, and after how many folds its facts are asked for."""

    facts: list[Fact]
    window: int
    result_chars: int
    folds: tuple[int, ...]
    seed: int = 1

    def script(self) -> Script:
        """Return the session."""
        return Script(self.facts, self.result_chars, self.seed)

    def is_over(self, requests: int, ages: FoldAges, moments: Moments | None) -> bool:
        """Tell whether everything was asked for, or nothing more is to be expected."""
        if moments is not None:
            return requests >= max(moments, default=0)
        return ages.youngest() >= max(self.folds) or requests >= MOST_REQUESTS


@dataclass
class Outcome:
    """What one system kept of the facts."""

    system: str
    window: int
    result_chars: int
    asked: dict[int, Counter[Kind]] = field(default_factory=dict)
    """After so many folds: how many facts of each kind were asked for."""
    kept: dict[int, Counter[Kind]] = field(default_factory=dict)
    """After so many folds: how many facts of each kind the prompt had."""
    moments: Moments = field(default_factory=dict)
    requests: int = 0
    refused: int = 0
    side_queries: int = 0
    billed: float = 0.0
    last_tokens: int = 0
    unseen: float = 0.0
    searches: int = 0
    recall_tokens: int = 0
    """The tokens that searches for facts which the prompt did not have added to prompts."""

    def ask(self, folded: dict[Fact, int], known: set[Fact]) -> None:
        """Note which facts the model had, each after its own number of folds."""
        if folded:
            self.moments[self.requests] = folded
        for fact, folds in folded.items():
            self.asked.setdefault(folds, Counter())[fact.kind] += 1
            self.kept.setdefault(folds, Counter())[fact.kind] += fact in known


async def replay(
    system: str, case: Case, sender: Sender, shown: set[str], moments: Moments | None = None
) -> Outcome:
    """Send a session until all facts were folded as often as is asked for.

    `shown` are the lines that a summariser saw, known at the end. With moments given, the facts
    are asked for at these requests instead of after folds.
    """
    outcome = Outcome(system, case.window, case.result_chars)
    ages = FoldAges(case.facts)
    history: list[Json] = []
    last: Prompt | None = None
    sent = 0
    for said in case.script().messages():
        if said.message["role"] == "assistant":
            if case.is_over(outcome.requests, ages, moments):
                break
            prompt = await sender.send(history)
            outcome.requests += 1
            outcome.refused += prompt is None
            last, sent = prompt or last, len(history)
            if moments is not None:
                folded = moments.get(outcome.requests, {})
            else:
                folded = ages.folded_now(history, prompt.messages) if prompt else {}
            asked = {it: at for it, at in folded.items() if at in case.folds}
            outcome.ask(asked, await known_facts(asked, history, text_in(prompt), sender))
        ages.plant(said.facts, len(history))
        history.append(said.message)
    outcome.billed = price(sender.calls)
    outcome.side_queries = sum(call.is_side_query for call in sender.calls)
    outcome.last_tokens = len(last.tokens) if last else 0
    outcome.unseen = unseen_share(history[:sent], text_in(last), shown)
    if isinstance(sender, Recalling):
        outcome.searches, outcome.recall_tokens = sender.searches, sender.spent
    return outcome


async def known_facts(
    facts: Iterable[Fact], history: list[Json], prompt: str, sender: Sender
) -> set[Fact]:
    """Return the facts whose keys are in the prompt, or in what the model searches for.

    It searches for the words of the fact without its key: that is what it would be asked about.
    """
    known = {fact for fact in facts if fact.key in prompt}
    if isinstance(sender, Recalling):
        for fact in facts:
            if fact not in known:
                words = fact.said.replace(fact.key, " ")
                if fact.key in await sender.recalled(history, words):
                    known.add(fact)
    return known


def text_in(prompt: Prompt | None) -> str:
    """Return all that a prompt's messages say and call, without the tools' descriptions."""
    return "\n".join(map(rendered, prompt.messages)) if prompt else ""
