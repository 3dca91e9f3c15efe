"""Detect invented text: the names and words of a summary must occur in its source."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

ENOUGH_NAMES: Final = 4
NAMES_SHARE: Final = 0.4
"""The least share of a text's names that its source has; of a real summary nearly all."""
WORDS_SHARE: Final = 0.25
"""The least share of a text's words that its source has, for a text with few names."""
LONG_SOURCE_CHARS: Final = 20_000
LONG_SOURCE_SHARE: Final = 0.35
"""The same for a long source, which has many words of any text by chance."""
MAX_UNITS: Final = 500

# The beginning of a word stands for all its forms.
_STEM_CHARS = 6
_GRAM_CHARS = 4
# Scripts with spaces between words; those without, whose pairs of characters are like words; and
# those whose words have many forms, prefixes or signs for vowels.
_SPACED = r"A-Za-z\u00c0-\u024f\u0370-\u0587\u10a0-\u10ff\u1e00-\u1fff"
_PAIRED = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_OTHER = r"\u0590-\u109f\u1200-\u137f\u1780-\u17ff"
_WORD = re.compile(rf"[{_PAIRED}]{{2,}}+|[{_OTHER}]{{2,}}+|[{_SPACED}]{{4,}}+")
_IS_PAIRED = re.compile(rf"[{_PAIRED}]")
_IS_OTHER = re.compile(rf"[{_OTHER}]")
_ANY_WORD = re.compile(r"\w{2,}+")
_NAME = re.compile(rf"(?<![{_SPACED}\d_./])[{_SPACED}\d_./]{{2,}}+")
_IN_SENTENCE = re.compile(r"[\w,;][ (\"'`]{0,2}\Z")
_COMMON_WORDS = """
    about after again also assistant been before being could does done from have into just like
    more much must need none only other over should some such than that their them then there they
    this under user very want wants were what when where which while will with would your
    aber alle alles auch dass denn diese dieser doch durch eine einem einen einer eines haben hatte
    hier ihre immer kann kein keine mehr muss nach nicht noch nutzer nutzerin oder sein seine sich
    sind soll über unter wenn werden wird wurde wurden
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def is_grounded(text: str, source: str) -> bool:
    """Return whether enough of a text's names, or of its words if it has few, occur in a source."""
    names = _names_in(text)
    if len(names) >= ENOUGH_NAMES:
        return _share(names, source) >= NAMES_SHARE
    is_long = len(source) >= LONG_SOURCE_CHARS
    return known_share(text, source) >= (LONG_SOURCE_SHARE if is_long else WORDS_SHARE)


def known_share(text: str, source: str) -> float:
    """Return the share of a text's names and words that occur in a source."""
    units = _names_in(text) | _words_in(text)
    return _share(units or Counter(_ANY_WORD.findall(text.lower())), source)


def _share(units: Counter[str], source: str) -> float:
    """Return the share of units in a source; 1 if there is none, as nothing speaks against it."""
    known = source.lower()
    checked = sorted(units)[:: len(units) // MAX_UNITS + 1]
    found = sum(units[unit] for unit in checked if unit in known)
    return found / sum(units[unit] for unit in checked) if checked else 1


def _names_in(text: str) -> Counter[str]:
    """Count the paths, identifiers, numbers, and capitalised words inside of sentences."""
    found: Counter[str] = Counter()
    for match in _NAME.finditer(text):
        name = match[0].strip("._/")
        if name.isalpha():
            if len(name) > 2 and name[0].isupper() and _is_in_sentence(text, match.start()):
                found[name.lower()[:_STEM_CHARS]] += 1
        elif len(name) > 3 or (len(name) > 1 and name.isdigit()):
            found[name.lower()] += 1
    return found


def _is_in_sentence(text: str, place: int) -> bool:
    return _IN_SENTENCE.search(text, max(0, place - 3), place) is not None


def _words_in(text: str) -> Counter[str]:
    """Count the stems of longer words; pairs of characters where no space separates words."""
    found: Counter[str] = Counter()
    for word in _WORD.findall(text.lower()):
        if _IS_PAIRED.match(word):
            found.update(_grams(word, 2))
        elif _IS_OTHER.match(word):
            found.update(_grams(word, _GRAM_CHARS))
        elif word not in _COMMON:
            found[word[:_STEM_CHARS]] += 1
    return found


def _grams(word: str, size: int) -> Iterator[str]:
    return (word[place : place + size] for place in range(max(1, len(word) - size + 1)))
