"""Whether a prompt still has what a question is about."""

from collections import Counter
from collections.abc import Iterable, Mapping

from bench.conversation.dialogues.data import Question
from bench.conversation.words import content_words, words

# With more, what was dropped is often taken for known: other turns have the same words.
RARE_SHARE = 0.005
LEAST_RARE = 2
ENOUGH = 0.5


class Evidence:
    """What each turn of a dialogue is recognised by: its rare words, else its content words.

    A word is rare if at most one turn in two hundred has it (two in a short dialogue).
    """

    def __init__(self, turns: Mapping[str, str]) -> None:
        spread = Counter(word for text in turns.values() for word in content_words(text))
        most = max(LEAST_RARE, int(RARE_SHARE * len(turns)))
        self._marks = {
            turn: _rare(text, spread, most) or content_words(text) for turn, text in turns.items()
        }

    def answered(self, questions: Iterable[Question], prompt: str) -> int:
        """Return how many questions have all their evidence in the prompt."""
        known = words(prompt)
        return sum(all(self._is_in(turn, known) for turn in it.evidence) for it in questions)

    def _is_in(self, turn: str, known: frozenset[str]) -> bool:
        marks = self._marks[turn]
        return len(marks & known) >= ENOUGH * len(marks)


def _rare(text: str, spread: Counter[str], most: int) -> frozenset[str]:
    return frozenset(word for word in content_words(text) if spread[word] <= most)
