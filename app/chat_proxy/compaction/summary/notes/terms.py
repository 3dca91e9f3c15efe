"""The distinctive words of a text, by which the notes find the sentences that carry facts."""

import re
from collections.abc import Iterable, Mapping
from math import log
from typing import Final

_WORD = re.compile(
    r"[A-Za-z0-9À-ɏͰ-ԯ؀-ۿ'_][A-Za-z0-9À-ɏͰ-ԯ؀-ۿ'_./:@#%+-]*"
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_EDGES: Final = "'.:/-+@#%"
_LEAST_CHARS = 3
_DIGITS_BOOST = 1.4
_NAME_BOOST = 1.2
_STOP_WORDS: Final = frozenset(
    """
    the and for are but not you all any can had her was one our out has have him his how its let may
    new now old see two way who did get got yes she too use than that this with from they them then
    there their these those what when where which while will would could should about after again
    also because been before being both does doing down during each few further here hers into just
    more most much must only other over same some such very were your yours really like know think
    thing things want good great nice well okay sure thanks thank please lot lots bit make made
    going gonna i'm it's don't can't i've that's you're i'll we're didn't isn't
    und der die das ist nicht ein eine mit auf für von den dem des sich auch wie aber oder
    les une est pas que qui pour dans avec sur los las una por con para del como más pero
    """.split()  # noqa: SIM905 - words are easier to read as lines
)


def terms_of(text: str) -> dict[str, float]:
    """Return the words of a text that may be distinctive, each with its boost.

    Numbers and names weigh more than other words. Scripts without spaces are cut into pairs.
    """
    found: dict[str, float] = {}
    is_first = True
    for match in _WORD.findall(text):
        word = match.strip(_EDGES)
        if _CJK.match(word):
            for start in range(max(1, len(word) - 1)):
                found.setdefault(word[start : start + 2], 1.0)
        elif word:
            lowered = word.lower().removesuffix("'s")
            has_digit = any(map(str.isdigit, word))
            if (len(lowered) >= _LEAST_CHARS or has_digit) and lowered not in _STOP_WORDS:
                is_name = not is_first and not word.islower()
                boost = _DIGITS_BOOST if has_digit else _NAME_BOOST if is_name else 1.0
                found[lowered] = max(boost, found.get(lowered, 0.0))
        is_first = False
    return found


def frequencies(documents: Iterable[Mapping[str, float]]) -> tuple[dict[str, int], int]:
    """Return in how many documents each term occurs, and the number of documents."""
    counts: dict[str, int] = {}
    total = 0
    for terms in documents:
        total += 1
        for term in terms:
            counts[term] = counts.get(term, 0) + 1
    return counts, total


def rarity(frequency: int, documents: int) -> float:
    """Return the weight of a term: the rarer, the more; a term of many documents weighs little."""
    return log(1 + documents / frequency)
