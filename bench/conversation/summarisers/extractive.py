"""Two dense summarisers: the sentences with the rarest words, as many as fit, whole or terse."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.conversation.prompt import Prompt, count
from bench.conversation.summarisers.request import (
    Heading,
    Passage,
    headings,
    max_tokens_of,
    passages,
    section_for,
    written,
)
from bench.conversation.words import STOP_WORDS, content_words

SHARE_OF_LIMIT = 0.8
_LONGEST = 300
_LEAST_WORDS = 2
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?]+(?=\s|$)|$)", re.MULTILINE)
# Frames, headings and the sentences with which a proxy introduces a summary are no content.
_FRAME = re.compile(
    r"^(?:[#<\[].*|- \(none\)|Summary of earlier .*|It (?:stands for|is a record).*|words? in it.*"
    r"|The user's own messages.*|Understood\..*|I go on from here\.)$"
)
_NUMBER = re.compile(r"\d")
_NAME = re.compile(r"(?<=[a-z,;'\"] )[A-Z][a-z]+")
_DATE = re.compile(
    r"\b(?:\d{1,2}:\d\d|\d{4}|(?:Jan|Febr)uary|March|April|May|June|July|August|(?:Sept|Nov|Dec)ember"
    r"|October|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|yesterday|last (?:week|month|year))\b"
)
# A note of a proxy: the number of its message and its speaker, then parts.
_NOTE = re.compile(r"^#\d+ (?:\w+: )?")
_EDGES = ".,!?;:'\"()"
_SHORT_WORDS = frozenset(
    "a an to of in on at is am be it i me my we us so do as by up oh".split()  # noqa: SIM905
)
_EMPTY_WORDS = (STOP_WORDS | _SHORT_WORDS) - {"not", "nor", "off", "until", "before", "after"}
_WORTH_OF_NUMBER, _WORTH_OF_NAME, _WORTH_OF_DATE = 3.0, 2.0, 3.0


class Sentence(NamedTuple):
    """A sentence of what was given, at its place, and the section that it belongs to."""

    place: int
    section: str
    text: str


def extract(prompt: Prompt) -> str:
    """Return the summary that a request asks for, in sentences of the conversation."""
    return _summary(prompt, sentences(prompt, headings(prompt)))


def extract_tersely(prompt: Prompt) -> str:
    """Return the same in the words that carry content, as a model does that writes short notes."""
    given = sentences(prompt, headings(prompt))
    short = {terse(it.text): it._replace(text=terse(it.text)) for it in given}
    return _summary(prompt, [it for text, it in short.items() if text])


def terse(sentence: str) -> str:
    """Return a sentence without the words that are in every text."""
    kept = [word for word in sentence.split() if word.strip(_EDGES).lower() not in _EMPTY_WORDS]
    return " ".join(kept)


def _summary(prompt: Prompt, given: Sequence[Sentence]) -> str:
    outline = headings(prompt)
    most = int(SHARE_OF_LIMIT * max_tokens_of(prompt.fields)) - count(written(outline, {}))
    bullets: dict[str, list[str]] = {}
    for sentence in densest(given, most):
        bullets.setdefault(sentence.section, []).append(sentence.text)
    return written(outline, bullets)


def sentences(prompt: Prompt, outline: Sequence[Heading]) -> list[Sentence]:
    """Return each different sentence that the summariser was given."""
    found: dict[str, Sentence] = {}
    for passage in passages(prompt):
        for section, text in _sectioned(passage, outline):
            found.setdefault(text, Sentence(len(found), section, text))
    return list(found.values())


def densest(given: Sequence[Sentence], most_tokens: int) -> list[Sentence]:
    """Return the sentences that are worth most per token, in the order in which they were said."""
    spread = Counter(word for sentence in given for word in content_words(sentence.text))
    costs = {sentence: count(f"- {sentence.text}\n") for sentence in given}
    worths = {sentence: _worth(sentence.text, spread, len(given)) for sentence in given}
    chosen, left = [], most_tokens
    for sentence in sorted(given, key=lambda it: (-worths[it] / costs[it], it.place)):
        if worths[sentence] and costs[sentence] <= left:
            left -= costs[sentence]
            chosen.append(sentence)
    return sorted(chosen, key=lambda it: it.place)


def _worth(text: str, spread: Counter[str], number: int) -> float:
    words = content_words(text)
    if len(words) < _LEAST_WORDS:
        return 0.0
    rarity = sum(math.log(1 + number / spread[word]) for word in words)
    marks = (
        (_NUMBER, _WORTH_OF_NUMBER),
        (_NAME, _WORTH_OF_NAME),
        (_DATE, _WORTH_OF_DATE),
    )
    return rarity + sum(worth * len(pattern.findall(text)) for pattern, worth in marks)


def _sectioned(passage: Passage, outline: Sequence[Heading]) -> Iterator[tuple[str, str]]:
    """Yield the sentences of a text with their sections; those of a summary stay in theirs."""
    own = section_for(passage.role, outline)
    names = {heading.name for heading in outline}
    section = own
    for found in _SENTENCE.findall(passage.text.replace(" | ", "\n")):
        sentence = _NOTE.sub("", " ".join(found.split()))
        if sentence.startswith("#") and (name := sentence.strip("# ")) in names:
            section = name
        elif sentence.startswith("</"):
            section = own
        elif sentence and not _FRAME.match(sentence):
            yield section, sentence.removeprefix("- ")[:_LONGEST]
