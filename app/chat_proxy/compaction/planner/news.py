"""Estimate how much of a conversation says something new: the rest needs no room in a fold."""

import re
from collections.abc import Callable, Iterator, Sequence

from chat_proxy.chat.message import Message
from chat_proxy.compaction.summary.notes.demands import demands_in
from chat_proxy.compaction.summary.notes.telegraphic import sentences_of
from chat_proxy.compaction.summary.notes.terms import terms_of
from chat_proxy.compaction.summary.notes.units import shape_of_line

MAX_TEXT_CHARS = 40_000
MAX_RESULT_CHARS = 8_000
"""The characters of a tool result by which the rest of it is judged."""
NOTE_TOKENS = 6
"""About the tokens in front of a note: the message's number and speaker."""

_SENTENCE_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s*|\n")


def news_sizes(messages: Sequence[Message], sizes: Sequence[int]) -> Iterator[int]:
    """Yield the tokens of each message that say something which no earlier one said.

    Talk counts by the sentences with a new word, a tool result by the lines that look unlike those
    before them: of a log whose lines differ in their numbers, a few notes are enough.
    """
    words: set[str] = set()
    shapes: set[str] = set()
    for message, size in zip(messages, sizes, strict=True):
        if message.is_tool_result:
            yield int(size * _new_lines(message, shapes))
        else:
            yield int(size * _new_sentences(message, words))


def demand_sizes(messages: Sequence[Message], count: Callable[[str], int]) -> Iterator[int]:
    """Yield the tokens of what each message of the user demands, as the notes would have it."""
    for message in messages:
        yield sum(
            count(demand) + NOTE_TOKENS
            for kind, text in (message.pieces() if message.is_user else ())
            if kind == "text"
            for demand in demands_in(sentences_of(text[:MAX_TEXT_CHARS])).values()
        )


def _new_sentences(message: Message, seen: set[str]) -> float:
    """Return the share of the sentences that say something new, by their length."""
    new = total = 0
    for kind, text in message.pieces():
        if kind != "text":
            continue
        for sentence in _SENTENCE_END.split(text[:MAX_TEXT_CHARS]):
            terms = terms_of(sentence).keys()
            total += len(sentence)
            if terms - seen:
                new += len(sentence)
                seen.update(terms)
    return new / total if total else 0.0


def _new_lines(message: Message, seen: set[str]) -> float:
    """Return the share of the lines of a result that look unlike all before, by their length."""
    new = total = 0
    for _, text in message.pieces():
        for line in text[:MAX_RESULT_CHARS].splitlines():
            shape = shape_of_line(line)
            total += len(line)
            if shape not in seen:
                new += len(line)
                seen.add(shape)
    return new / total if total else 0.0
