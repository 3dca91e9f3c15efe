"""Facts that a poor summary loses: what the user said is in the folded prompt all the same."""

import json
import random
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import pytest

from chat_proxy.compaction.budget import Budget, BudgetPolicy
from chat_proxy.compaction.summary.plan import tail_tokens
from chat_proxy.proxy.routing.summary_policy import ledger_tokens, verbatim_tokens
from tests.journeys.summaries.troubles import FRAME, FRAME_END, RULES, Trouble, outcome, troubled
from tests.support.fake_model import Line
from tests.support.summary_model import Question, answer, tokenizer, written
from tests.unit.chat.shapes import Fields, call, result, says, user

pytestmark = pytest.mark.anyio

SYLLABLES = ["ka", "lo", "mi", "ne", "ru", "sa", "ti", "vo", "xa", "ze", "bo", "du", "fe", "gi"]
NOUNS = ["the report", "the invoice list", "the login page", "the nightly job", "the search box"]


@dataclass(frozen=True)
class Needle:
    """A fact, in the words that must come through."""

    kind: str
    text: str
    sentence: str


def word(chance: random.Random) -> str:
    return "".join(chance.choice(SYLLABLES) for _ in range(3))


def needle(kind: str, chance: random.Random) -> Needle:
    """Return a fact that nobody could guess, and a sentence with it."""
    one, two = word(chance), word(chance)
    noun = chance.choice(NOUNS)
    if kind == "constraint":
        text = f"Never let {one} write to {two} before {noun} is done."
        return Needle(kind, text, text)
    if kind == "path":
        text = f"src/{one}/{two}.py"
        return Needle(kind, text, f"I looked at {text} for {noun}.")
    if kind == "name":
        text = f"{one}_{two}" if chance.random() < 0.5 else f"{one.upper()[:3]}-{len(two)}{one[0]}7"
        return Needle(kind, text, f"It goes by {text} in {noun}.")
    if kind == "error":
        text = f"{one.title()}Error: {two} was refused"
        return Needle(kind, text, f"It said\n{text}\nand stopped.")
    text = f"{chance.randrange(100, 999)} seconds"
    return Needle(kind, text, f"The pause of {one} is {text}.")


@dataclass
class Haystack:
    """A conversation with facts in it, 120 by the user and 80 by others."""

    seed: int

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self.by_user = self._planted(constraint=40, path=40, name=40)
        self.others = self._planted(path=20, name=20, error=20, number=20)

    @property
    def needles(self) -> list[Needle]:
        return [*self.by_user, *self.others]

    def turns(self, tokens: int, own_tokens: int) -> list[Fields]:
        """Return 40 turns of so many tokens in all, of which the user says so many."""
        told: list[Fields] = []
        planted = sum(tokenizer().count(it.sentence) for it in self.by_user)
        for turn in range(40):
            said = [it.sentence for it in self.by_user[3 * turn : 3 * turn + 3]]
            seen = [it.sentence for it in self.others[2 * turn : 2 * turn + 2]]
            told += [
                user(f"{self.filler((own_tokens - planted) // 40)}. {' '.join(said)}"),
                says(None, tool_calls=[call(f"c{turn}")]),
                result(f"c{turn}", f"{self.filler((tokens - own_tokens) // 40)}\n{' '.join(seen)}"),
                says(f"I see: {seen[0]}"),
            ]
        return told

    def ending(self, tokens: int) -> list[Fields]:
        """Return a turn without facts that fills the tail, and a last question."""
        return [user("Tell me."), says(self.filler(tokens)), user("What is left to do?")]

    def filler(self, tokens: int) -> str:
        """Return about so many tokens that say nothing."""
        some = " ".join(word(self._chance) for _ in range(20))
        words = max(1, tokens * 20 // tokenizer().count(some))
        return " ".join(word(self._chance) for _ in range(words))

    def _planted(self, **wished: int) -> list[Needle]:
        kinds = [kind for kind, number in wished.items() for _ in range(number)]
        found = [needle(kind, self._chance) for kind in kinds]
        self._chance.shuffle(found)
        return found

    async def dropping_half(self, question: Question, line: Line) -> None:
        """Write down every second fact of those that the question has."""
        given = "\n".join(question.texts)
        seen = [it for it in self.needles if it.text in given]
        lines = [" ".join(it.sentence.split()) for it in seen[::2]]
        await answer(question, line, written(lines))


def summarised(hay: Haystack, window: int) -> AbstractAsyncContextManager[Trouble]:
    """Let a proxy meet a model that drops half of everything; nothing is only cleared."""
    prune = {"enabled": False}
    return troubled(hay.dropping_half, budget={"context_window": window}, prune=prune)


def share(needles: list[Needle], text: str, *kinds: str) -> float:
    """Return the share of the facts of these kinds that stand in a text."""
    wanted = [it for it in needles if it.kind in kinds]
    return sum(it.text in text for it in wanted) / len(wanted)


def budget_of(window: int) -> Budget:
    return Budget.of(window, {}, BudgetPolicy(0.8, 1, None))


def summary_in(messages: list[Fields]) -> str:
    """Return what the folded message says in its summary."""
    (text,) = [str(it["content"]) for it in messages if FRAME in str(it["content"])]
    return text.partition(FRAME)[2].partition(FRAME_END)[0]


@pytest.mark.parametrize("window", [32_000, 128_000])
@pytest.mark.parametrize("excess", [1, 2])
async def test_what_the_user_said_comes_through_although_half_is_dropped(
    window: int, excess: float
) -> None:
    """BUGS 31: constraints, paths and identifiers; at the cost of a small ledger.

    The user says more than is kept word for word, so the ledger has to help.
    """
    budget = budget_of(window)
    hay = Haystack(window)
    own = int(verbatim_tokens(budget) * excess)
    given = [RULES, *hay.turns(budget.trigger - 3_200, own), *hay.ending(tail_tokens(budget))]
    async with summarised(hay, window) as trouble:
        answered = await trouble.ask(given)

        assert outcome(answered) == "built"
        prompt = "\n".join(trouble.brain.chats[-1].texts)
        rest = json.dumps(trouble.sent[3:])
        assert share(hay.needles, rest, "constraint", "path", "name", "error") == 0
    assert share(hay.by_user, prompt, "constraint") >= 0.95
    assert share(hay.by_user, prompt, "path", "name") >= 0.9


async def test_the_ledger_stays_within_its_budget() -> None:
    window = 32_000
    budget = budget_of(window)
    hay = Haystack(7)
    own = int(verbatim_tokens(budget) * 3)
    given = [RULES, *hay.turns(budget.trigger - 3_200, own), *hay.ending(tail_tokens(budget))]
    summary = written(["Much was said."])

    async def forgetting(question: Question, line: Line) -> None:
        await answer(question, line, summary)

    async with troubled(forgetting, budget={"context_window": window}) as trouble:
        answered = await trouble.ask(given)

        assert outcome(answered) == "built"
        said = set(summary.splitlines())
        added = [line for line in summary_in(trouble.sent).splitlines() if line not in said]
        tokens = tokenizer().count("\n".join(added))
        assert ledger_tokens(budget) // 2 < tokens <= ledger_tokens(budget)


async def test_a_second_summary_loses_no_more_of_what_the_user_said() -> None:
    """BUGS 31: the facts come from the client's own messages again, not from the first summary."""
    window = 32_000
    budget = budget_of(window)
    hay = Haystack(11)
    own = int(verbatim_tokens(budget) * 1.2)
    first = [RULES, *hay.turns(budget.trigger - 3_200, own), *hay.ending(tail_tokens(budget))]
    more = hay.filler(budget.trigger // 2)
    then = [*first, says(more), *hay.ending(tail_tokens(budget))]
    async with summarised(hay, window) as trouble:
        await trouble.ask(first)
        answered = await trouble.ask(then)

        assert outcome(answered) == "built"
        assert len(trouble.questions) == 2
        prompt = "\n".join(trouble.brain.chats[-1].texts)
    assert share(hay.by_user, prompt, "constraint") >= 0.95
    assert share(hay.by_user, prompt, "path", "name") >= 0.9
