"""Detect a summary in another script than the conversation's."""

import re
from collections import Counter
from typing import Final
from unicodedata import name

LEAST_SHARE: Final = 0.05
"""The least share of the dialogue's letters that the summary's main script must have there."""

_MIN_SUMMARY_LETTERS = 20
_MIN_DIALOGUE_LETTERS = 60
_SAMPLES = 10
_SAMPLE_CHARS = 4_000
# Code is in Latin letters in every conversation.
_CODE = re.compile(r"```[^`]*+(?:```|\Z)|`[^`\n]{1,200}+`")
_RUN = re.compile(r"[A-Za-z0-9_./\\:@#=~$<>{}()\[\]-]{2,}+")
_SCRIPT_OF_WORD = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "HALFWIDTH": "CJK", "FULLWIDTH": "LATIN"}
# One character says about as much as three letters.
_LETTERS_PER_CHARACTER = {"CJK": 3, "HANGUL": 3}


def has_foreign_script(summary: str, dialogue: str) -> bool:
    """Return whether a summary's main script is practically absent from the dialogue.

    The dialogue is what the user and the assistant wrote: tool results may be in any language.
    """
    own, spoken = _scripts_in(summary), _scripts_in(_sampled(dialogue))
    if not own or spoken.total() < _MIN_DIALOGUE_LETTERS:
        return False
    script, letters = own.most_common(1)[0]
    return letters >= _MIN_SUMMARY_LETTERS and spoken[script] < LEAST_SHARE * spoken.total()


def _sampled(text: str) -> str:
    """Return a text, or parts from its beginning to its end if it is long."""
    if len(text) <= _SAMPLES * _SAMPLE_CHARS:
        return text
    step = len(text) // _SAMPLES
    starts = range(0, _SAMPLES * step, step)
    return "\n".join(text[start : start + _SAMPLE_CHARS] for start in starts)


def _scripts_in(text: str) -> Counter[str]:
    """Return how many letters of prose each script has."""
    prose = _RUN.sub(_without_identifiers, _CODE.sub(" ", text))
    letters: Counter[str] = Counter()
    for character, times in Counter(prose).items():
        if character.isalpha() and (script := _script_of(character)):
            letters[script] += times * _LETTERS_PER_CHARACTER.get(script, 1)
    return letters


def _without_identifiers(match: re.Match[str]) -> str:
    word = match[0].strip("./:()[]-")
    is_plain = word.isalpha() and (word[1:].islower() or word.isupper())
    return word if is_plain else " "


def _script_of(letter: str) -> str:
    word = name(letter, "").partition(" ")[0].partition("-")[0]
    return _SCRIPT_OF_WORD.get(word, word)
