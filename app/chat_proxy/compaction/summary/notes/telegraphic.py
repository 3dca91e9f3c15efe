"""Shorten sentences to their content words, as a person does who takes notes."""

import re
from typing import Final

# Never words that turn a meaning: not, no, never, without, unless, if, or, but.
_FILLERS: Final = frozenset(
    """
    a an the is are was were be been being am i'm i've i'd i'll it's that's there's he's she's
    we're we've we'll you're you've they're they've i it its this that these those there here
    just really very so too quite pretty also actually basically simply well oh wow yeah yep hey hi
    hello thanks thank great awesome cool glad lovely wonderful amazing course sure okay ok and as
    to do does did have has had will would can could my me we our us you your of in at on for with
    him her his she he they them their then than some any much more about lot
    """.split()  # noqa: SIM905 - a list of sixty words is easier to read as lines
)
_WORD_EDGES: Final = ".,!?;:'\"()\u201c\u201d\u2018\u2019\u2026"
_ENDS: Final = ".,!?;:"
_MORE_THAN = re.compile(r"\bmore than (?=\W?\d)", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。\uff01\uff1f\uff1b])|\n+")
# A title is nothing without its small words: "The Name of the Wind".
_TITLE = re.compile(r'"[^"\n]{2,60}"|\u201c[^\u201c\u201d\n]{2,60}\u201d')
_JOINT: Final = "\0"
_FLUENT = re.compile(r"[A-Za-z] [a-z]++ [a-z]")


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, without blank ones."""
    return [sentence.strip() for sentence in _SENTENCE.split(text) if sentence and sentence.strip()]


def telegraphic(sentence: str) -> str:
    """Return an English sentence without its fillers; code and other languages stay unchanged.

    What is short and in quotes stays as well.
    """
    if not _FLUENT.search(sentence) or "`" in sentence:
        return sentence
    kept: list[str] = []
    titled = _TITLE.sub(lambda found: found[0].replace(" ", _JOINT), sentence)
    for word in _MORE_THAN.sub("over ", titled).split():
        if word.strip(_WORD_EDGES).lower().replace("\u2019", "'") not in _FILLERS:
            kept.append(word)
        elif kept and word[-1] in _ENDS and kept[-1][-1] not in _ENDS:
            kept[-1] += word[-1]
    return " ".join(kept).replace(_JOINT, " ")
