"""Estimate how much of a conversation says something new: the rest needs no room in a fold."""

import re
from collections.abc import Iterator, Sequence

from chat_proxy.chat.message import Message
from chat_proxy.compaction.summary.notes.terms import terms_of

MAX_TEXT_CHARS = 40_000

_SENTENCE_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s*|\n")


def news_sizes(messages: Sequence[Message], sizes: Sequence[int]) -> Iterator[int]:
    """Yield the tokens of each message whose sentences have a word that no earlier one had.

    Tool results have none: they are estimated by their size alone.
    """
    seen: set[str] = set()
    for message, size in zip(messages, sizes, strict=True):
        yield 0 if message.is_tool_result else int(size * _news_share(message, seen))


def _news_share(message: Message, seen: set[str]) -> float:
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
