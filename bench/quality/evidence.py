"""Whether a prompt still has what a question is about: word for word, or its key terms."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from bench.conversation.words import content_words, words
from bench.quality.recordings.session import Question

# With more, what was dropped is often taken for known: other turns have the same words.
RARE_SHARE = 0.005
LEAST_RARE = 2
ENOUGH = 0.5
_NO_WORD = re.compile(r"[\W_]+")


class Evidence:
    """What each text of a session is recognised by: its rare words, else its content words.

    A word is rare if at most one text in two hundred has it (two in a short session).
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        spread = Counter(word for text in texts.values() for word in content_words(text))
        most = max(LEAST_RARE, int(RARE_SHARE * len(texts)))
        self._marks = {
            key: _rare(text, spread, most) or content_words(text) for key, text in texts.items()
        }
        self._plain = {key: _plain(text) for key, text in texts.items()}

    def answered(self, questions: Iterable[Question], prompt: str) -> int:
        """Return how many questions have the key terms of all their evidence in the prompt."""
        known = words(prompt)
        return sum(all(self._is_in(key, known) for key in it.evidence) for it in questions)

    def verbatim(self, questions: Iterable[Question], prompt: str) -> int:
        """Return how many questions have all their evidence in the prompt word for word."""
        shown = _plain(prompt)
        return sum(all(self._plain[key] in shown for key in it.evidence) for it in questions)

    def _is_in(self, key: str, known: frozenset[str]) -> bool:
        marks = self._marks[key]
        return len(marks & known) >= ENOUGH * len(marks)


def _plain(text: str) -> str:
    return " ".join(_NO_WORD.sub(" ", text).split())


def _rare(text: str, spread: Counter[str], most: int) -> frozenset[str]:
    return frozenset(word for word in content_words(text) if spread[word] <= most)
