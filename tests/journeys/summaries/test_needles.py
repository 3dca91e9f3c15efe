"""Facts that a poor summary loses: what the user said is in the folded prompt all the same."""

import json
import random
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import pytest

from chat_proxy.compaction.budget import Budget, BudgetPolicy
from chat_proxy.compaction.summary.notes.telegraphic import telegraphic
from tests.journeys.summaries.troubles import RULES, Trouble, outcome, troubled
from tests.support.fake_model import Line
from tests.support.summary_model import Question, answer, chosen, tokenizer, written
from tests.unit.chat.shapes import Fields, call, result, says, user

pytestmark = pytest.mark.anyio

SYLLABLES = ["ka", "lo", "mi", "ne", "ru", "sa", "ti", "vo", "xa", "ze", "bo", "du", "fe", "gi"]
NOUNS = ["the report", "the invoice list", "the login page", "the nightly job", "the search box"]
_ORDINARY_WORDS = """
    about after again along another around because before being between both bring build change
    clean close could course early either enough every first found further given going group hardly
    having house itself large later least leave level light little longer making matter maybe might
    moment never nothing number often order other outside part people perhaps place point quite
    really reason second seems several should simple since small sometimes still table taken thing
    though through together under until usual while whole without words work would write year
"""
ORDINARY = _ORDINARY_WORDS.split()


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
        """Return about so many tokens of ordinary words that say nothing."""
        return " ".join(self._chance.choice(ORDINARY) for _ in range(max(1, tokens)))

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
    """Let a proxy meet a model that drops half of everything; nothing is only aged."""
    prune = {"enabled": False}
    return troubled(hay.dropping_half, budget={"context_window": window}, prune=prune)


def share(needles: list[Needle], text: str, *kinds: str) -> float:
    """Return the share of the facts of these kinds that stand in a text, if only in few words."""
    wanted = [it.text for it in needles if it.kind in kinds]
    return sum(it in text or telegraphic(it) in text for it in wanted) / len(wanted)


def budget_of(window: int) -> Budget:
    return Budget.of(window, {}, BudgetPolicy(0.8, 1, None))


def conversation(hay: Haystack, budget: Budget, own_share: float) -> list[Fields]:
    """Return a conversation just over the trigger, of which the user says such a share."""
    own = int(budget.usable * own_share)
    return [RULES, *hay.turns(int(budget.trigger * 0.95), own), *hay.ending(budget.trigger // 20)]


def tail_of(trouble: Trouble) -> str:
    """Return what is sent behind the fold and its acknowledgement."""
    return json.dumps(trouble.sent[3:])


def prompt_of(trouble: Trouble) -> str:
    return "\n".join(trouble.brain.chats[-1].texts)


@pytest.mark.parametrize("window", [32_000, 128_000])
@pytest.mark.parametrize("own_share", [0.15, 0.3])
async def test_what_the_user_said_comes_through_although_half_is_dropped(
    window: int, own_share: float
) -> None:
    """BUGS 31: every constraint, and nearly all paths and identifiers.

    The user says more than is kept word for word, so the notes have to help.
    """
    hay = Haystack(window)
    async with summarised(hay, window) as trouble:
        answered = await trouble.ask(conversation(hay, budget_of(window), own_share))

        assert outcome(answered) == "built"
        assert share(hay.needles, tail_of(trouble), "constraint", "path", "name", "error") < 0.6
    assert share(hay.by_user, prompt_of(trouble), "constraint") == 1
    assert share(hay.by_user, prompt_of(trouble), "path", "name") >= 0.9
    assert share(hay.others, prompt_of(trouble), "error") >= 0.9
    assert share(hay.others, prompt_of(trouble), "path", "name", "number") >= 0.8


@pytest.mark.parametrize("telling", ["nothing new", "no word"])
@pytest.mark.parametrize("window", [12_000, 16_000])
async def test_no_constraint_is_lost_where_a_small_window_loses_other_facts(
    window: int, telling: str
) -> None:
    """A demand stays though other lines name the same things, and though no model helps."""
    hay = Haystack(window)

    async def forgetting(question: Question, line: Line) -> None:
        facts = [
            it for it in chosen(question, 40) if not any(fact.text in it for fact in hay.needles)
        ]
        await answer(question, line, written(facts[:12]) if telling == "nothing new" else "")

    async with troubled(forgetting, budget={"context_window": window}) as trouble:
        answered = await trouble.ask(conversation(hay, budget_of(window), 0.2))

        assert outcome(answered) == ("built" if telling == "nothing new" else "failed-open")
        assert share(hay.needles, tail_of(trouble), "constraint") < 0.6
    assert share(hay.by_user, prompt_of(trouble), "constraint") == 1


async def test_a_summary_that_says_little_leaves_its_room_to_the_notes() -> None:
    """The prompt stands at its target, however short the summary is."""
    window = 32_000
    budget, hay = budget_of(window), Haystack(7)

    async def brief(question: Question, line: Line) -> None:
        await answer(question, line, written(chosen(question, 3)))

    async with troubled(brief, budget={"context_window": window}) as trouble:
        answered = await trouble.ask(conversation(hay, budget, 0.3))

        assert outcome(answered) == "built"
        after = int(answered.headers["x-chat-proxy-tokens-after"])
        assert budget.trigger * 0.45 <= after <= budget.trigger * 0.85


async def test_a_second_summary_loses_no_more_of_what_the_user_said() -> None:
    """BUGS 31: the facts come from the client's own messages again, not from the first summary."""
    window = 32_000
    budget, hay = budget_of(window), Haystack(11)
    first = conversation(hay, budget, 0.15)
    more = [user("Go on."), says(hay.filler(budget.trigger // 4))] * 2
    async with summarised(hay, window) as trouble:
        await trouble.ask(first)
        answered = await trouble.ask([*first[:-1], *more, first[-1]])

        assert outcome(answered) == "built"
        assert len(trouble.questions) == 2
        assert share(hay.needles, tail_of(trouble), "constraint", "path", "name") < 0.1
    assert share(hay.by_user, prompt_of(trouble), "constraint") == 1
    assert share(hay.by_user, prompt_of(trouble), "path", "name") >= 0.9
