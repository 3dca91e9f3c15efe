"""Summary models of known quality: they keep a share of the facts that they are shown."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from bench.conversation.loss.facts import Fact, Kind
from bench.conversation.prompt import Prompt, count, text_of
from bench.conversation.summarisers.request import (
    Heading,
    headings,
    is_repair,
    leaves,
    max_tokens_of,
    passages,
    section_about,
    written,
)

_SUBJECTS: dict[Kind, str] = {
    "user constraint": "Constraints",
    "user fact": "Preferences",
    "decision": "Decisions",
    "file path": "Files",
    "failing test": "Blocked",
}
_OF_USER: tuple[Kind, ...] = ("user constraint", "user fact")
_LEAST_HEADINGS = 3
_SHARE_OF_LIMIT = 0.95
_PROGRESS = "The work on the open tasks goes on as described."


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a model summarises.

    `keeps`: the share of what it reads in the conversation; `carries`: the share of what the
    summary before had, each time; `drops`: at most so many sections are left out; `ranks`: where
    not all fits, the user's words go first, then the newest, else it goes by what was shown first.
    """

    name: str
    keeps: float
    carries: float
    most_tokens: int | None = None
    drops: int = 0
    ranks: bool = True


GOOD = Quality("good", keeps=0.95, carries=0.97)
WEAK = Quality("weak", keeps=0.4, carries=0.8, most_tokens=300, drops=2, ranks=False)


class FactSummariser:
    """Writes summaries of the facts that it is shown, and notes all lines that it is shown.

    What it was not shown it cannot know. Whether it keeps a fact is the same at each run.
    """

    def __init__(self, facts: Sequence[Fact], quality: Quality | None) -> None:
        self.shown: set[str] = set()
        self._facts = facts
        self._quality = quality
        self._carried: Counter[str] = Counter()
        self._written = 0

    def __call__(self, prompt: Prompt) -> str | None:
        """Return the summary that a request asks for; None without a model."""
        quality = self._quality
        if quality is None:
            return None
        self.shown.update(
            line.strip() for message in prompt.messages for line in text_of(message).splitlines()
        )
        outline = headings(prompt)
        wrong = quality.drops and not is_repair(prompt)
        kept = _without_some(outline, 1 + self._written % quality.drops) if wrong else outline
        self._written += 1
        most = int(_SHARE_OF_LIMIT * max_tokens_of(prompt.fields))
        most = min(most, quality.most_tokens or most)
        bullets = _sectioned(list(self._kept(prompt, quality)), outline, kept, most)
        return written(kept, bullets)

    def _kept(self, prompt: Prompt, quality: Quality) -> Iterator[Fact]:
        """Yield the facts that are kept, in the order in which they are written while they fit."""
        summarised, spoken = _apart([passage.text for passage in passages(prompt)])
        for fact in self._ordered(summarised + spoken, quality):
            is_carried = fact.key in summarised and self._carries(fact, quality)
            if is_carried or (fact.key in spoken and _draw(quality, fact.key) < quality.keeps):
                yield fact

    def _ordered(self, text: str, quality: Quality) -> list[Fact]:
        places = {fact: text.rfind(fact.key) for fact in self._facts}
        if quality.ranks:
            return sorted(self._facts, key=lambda it: (it.kind not in _OF_USER, -places[it]))
        return sorted(self._facts, key=lambda it: places[it])

    def _carries(self, fact: Fact, quality: Quality) -> bool:
        self._carried[fact.key] += 1
        return _draw(quality, f"{fact.key} {self._carried[fact.key]}") < quality.carries


def _draw(quality: Quality, key: str) -> float:
    return Random(f"{quality.name} {key}").random()


def _apart(texts: Sequence[str]) -> tuple[str, str]:
    """Return the bullets of an earlier summary among the texts, and everything else.

    A summary is known by its headings.
    """
    summarised: list[str] = []
    spoken: list[str] = []
    for text in texts:
        lines = text.splitlines()
        is_summary = sum(line.startswith("##") for line in lines) >= _LEAST_HEADINGS
        for line in lines:
            (summarised if is_summary and line.startswith("- ") else spoken).append(line)
    return "\n".join(summarised), "\n".join(spoken)


def _without_some(outline: Sequence[Heading], number: int) -> list[Heading]:
    """Return the outline without its last sections that have no others below them."""
    alone = [heading for heading in leaves(outline) if heading.level == outline[0].level]
    return [heading for heading in outline if heading not in alone[-number:]]


def _sectioned(
    facts: Sequence[Fact], outline: Sequence[Heading], kept: Sequence[Heading], most_tokens: int
) -> dict[str, list[str]]:
    """Return as many notes as fit by section; those of a section that is left out are lost."""
    names = {heading.name for heading in kept}
    bullets: dict[str, list[str]] = {section_about("In Progress", outline): [_PROGRESS]}
    left = most_tokens - count(written(kept, bullets))
    for fact in facts:
        section = section_about(_SUBJECTS.get(fact.kind, ""), outline)
        cost = count(f"- {fact.note}\n")
        if section in names and cost <= left:
            left -= cost
            bullets.setdefault(section, []).append(fact.note)
    return bullets
