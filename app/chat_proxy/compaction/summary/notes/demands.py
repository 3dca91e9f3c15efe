"""The sentences of a user that must not be forgotten: demands, decisions, who the user is."""

import re
from collections.abc import Sequence
from typing import Final

from chat_proxy.compaction.ageing.line import cut_end

# Matched as whole words: "must" does not match in "mustard".
_ANYWHERE = """
    mustn't, make sure, ensure, remember that, remember this, remember to,
    keep in mind, note that, don't forget, forbidden, not allowed, allergic, allergisch,
    allergique, alérgico, alérgica, allergico, allergica, from now on, i prefer, we prefer,
    i'd prefer, i'd rather, no more than, no less than, no later than, under no circumstances,
    nobody may, no one may, vegetarian, vegan, required to, keep that in mind, keep this in mind,
    bear in mind, deadline, my name is, call me,
    i can't eat, i cannot eat, i don't eat, we decided, we have decided, we've decided, i decided,
    i have decided, i've decided, we agreed, we have agreed, mein name ist, ich heiße,
    je m'appelle, me llamo, mi chiamo, меня зовут, muss, musst, müssen, darf, dürfen, niemals,
    unbedingt, soll, sollst, il faut, doit, doivent, jamais, nunca, debe, deben, deve, devono,
    нельзя, никогда, должен, должна, должны, обязательно, не надо
"""
# At the start of a sentence or behind a colon these are imperatives; elsewhere they often only
# tell something.
_AT_START = """
    never, always, don't, dont, only, avoid, remember, prefer, use, nie,
    immer, nur, bitte, toujours, siempre, sempre, всегда, только
"""
_OPENINGS = r"(?:(?:please|also|and|but|so|then|important|note|btw|one thing|ok|okay|now)[\s,:]+)*"
# Scripts without spaces between words have no word boundaries to match.
_WITHIN = """
    必须, 必須, 不要, 不能, 不得, 不可, 务必, 永远, 始终, 总是, 只能, 只用, 禁止, 请勿, 必ず,
    絶対, しないで, ください, 반드시, 절대, 항상, 记住, 過敏, 过敏, 我叫
"""
_DAY = (
    "(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august"
    "|september|october|november|december"
)
_DATE = rf"\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_DAY})\b"
# "That must be exciting" and "a must-see" demand nothing.
_FEELING = (
    "so|such|very|really|pretty|quite|great|nice|fun|hard|tough|difficult|exciting|excited|amazing"
    "|awesome|rewarding|proud|happy|thrilled|tired|lovely|wonderful|incredible|fantastic|stressful"
    "|sad|interesting|cool|beautiful"
)
_PATTERNS: Final = (
    rf"(?<![\w.])must(?!\w|-\w| have |'ve| feel | be (?:{_FEELING})\b)",
    # "They do not say …" only tells something.
    r"(?<!they )(?<!people )(?<!who )(?<!which )(?<!that )\bdo not\b",
    # "At least once" is no limit.
    r"\bat (?:least|most) (?:\W?\d|an?\b|half|one|two|three|four|five|six|seven|eight|nine|ten)",
    rf"\b(?:by|until|due|due on) (?:the )?(?:\d{{1,2}}(?:st|nd|rd|th)? (?:of )?)?(?:{_DAY})\b",
    rf"\b(?:is|are|starts?|begins?|takes? place) on (?:\w{{2,6}}day,? )?(?:the )?{_DATE}",
    r"\b(?:by|until|due|due on) (?:\d{4}-\d\d|\d{1,2}:\d\d|\d{1,2} ?[ap]m\b)",
    r"\b(?:eats?|drinks?) no\b",
    r"\bI(?:'m| am) (?-i:[A-Z][a-zà-ž]+ [A-Z][a-zà-ž]+)",
)
LONGEST_DEMAND: Final = 400
_REFERS_BACK = re.compile(
    r"\b(?:that|this|it|these|those|das|dies|es|cela|ça|eso|esto|ciò|это)\b|[这那此其]|それ|これ",
    re.IGNORECASE,
)
_FEW_WORDS = 9


def _any_of(phrases: str) -> str:
    return "|".join(re.escape(phrase.strip()) for phrase in phrases.split(","))


# A look at the first character spares most positions the long lists of alternatives.
_DEMAND = re.compile(
    rf"(?<![\w.])(?=[^\W\d])(?:{_any_of(_ANYWHERE)})(?!\w| have |'ve)"
    rf"|(?:^[\W\d]*|[:;] ){_OPENINGS}(?=[^\W\d])(?:{_any_of(_AT_START)})(?![\w-])"
    rf"|(?=[^\x00-\x7f])(?:{_any_of(_WITHIN)})|\b(?=[^\W\d])(?:{'|'.join(_PATTERNS)})",
    re.IGNORECASE,
)


def demands_in(sentences: Sequence[str]) -> dict[int, str]:
    """Return the demands among a message's sentences, by index.

    A short demand that refers back ("Please always remember that.") is returned with the sentence
    before it, because alone it says nothing.
    """
    found: dict[int, str] = {}
    for index, sentence in enumerate(sentences):
        if sentence.endswith("?") or not _DEMAND.search(sentence.replace("\u2019", "'")):
            continue
        is_short = len(sentence.split()) <= _FEW_WORDS
        if index and is_short and _REFERS_BACK.search(sentence):
            earlier = found.pop(index - 1, sentences[index - 1])
            found[index] = cut_end(f"{earlier} {sentence}", LONGEST_DEMAND)
        else:
            found[index] = cut_end(sentence, LONGEST_DEMAND)
    return found
