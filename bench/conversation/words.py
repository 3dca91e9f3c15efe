"""The words of a text that carry its content."""

import re
from functools import lru_cache

_WORD = re.compile(r"[^\W_]{3,}")
_STOP = """
    the and for you your yours yourself are was were been being not but that this these those with
    have has had having her hers him his she they them their theirs our ours its from out about
    what when where which who whom why how all any both each few more most other some such nor only
    own same than too very can will just should now did does doing would could into over under again
    then once here there while during before after above below between because until off down myself
    let got get gets getting really know like think going went say says said yeah yes hey thanks
    thank great good much lot sure well see make makes made way thing things something anything also
    even still one new time sounds awesome amazing cool nice glad wow don didn doesn isn wasn won
    ain haven hasn couldn wouldn shouldn aren weren ll ve re
"""
STOP_WORDS = frozenset(_STOP.split())


@lru_cache(maxsize=100_000)
def words(text: str) -> frozenset[str]:
    """Return the different words of three letters or digits and more, in lower case."""
    return frozenset(_WORD.findall(text.lower()))


@lru_cache(maxsize=100_000)
def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that are not in every text."""
    return words(text) - STOP_WORDS
