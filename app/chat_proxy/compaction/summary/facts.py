"""Extract the facts that a summary must not lose from a text, by patterns alone."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from chat_proxy.compaction.summary.validation.foreign import is_key

FactKind = Literal["constraint", "error", "path", "url", "name", "number", "quote"]

LONGEST_FACT = 240
_MAX_NAME_CHARS = 160
_CONTEXT_CHARS = 60

_URL = re.compile(r"(?<![A-Za-z])[a-z][a-z0-9+.-]{1,10}://[^\s<>\"'`()\[\]{}|\\]+", re.IGNORECASE)
# Only scripts with spaces between words: in others, a name would merge with its sentence.
_WORD = re.compile(r"[A-Za-z0-9À-ɏͰ-ԯ_./\\:@#%&=+~$?*-]{3,}+")
_NAME = re.compile(
    r"""
    [^\W_]_+[^\W_]                          # snake_case, ENV_NAME
    | [a-z][A-Z]                            # camelCase
    | [A-Za-z]-?\d | \d-?[A-Za-z]           # ABC-123, hashes, UUIDs
    | ^--?[A-Za-z] | ^[#$][A-Za-z0-9] | ^\.[A-Za-z]   # flags, #12, $HOME, .env
    | [^\W_](?:\.|::|@|=)[^\W_]             # main.py, os.path, std::move, a@b, key=value
    | \d[:-]\d                              # 8080:80, 2026-01-31
    """,
    re.VERBOSE,
)
_PLAIN_NUMBER = re.compile(r"[\d.,:%-]{1,9}|\d[\d.,]*[A-Za-z]{1,3}")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SIGNS = r"%|‰|°c|°f|€|£|¥|\$|µs|秒|分钟|小时|天|元|万"
_UNITS = r"""
    ns us ms s sec min h hrs? [kmgt]i?b b bytes? tokens? px [kcm]?m kg g [kmg]?hz [km]?w v a
    usd eur gbp degrees seconds? minutes? hours? days? weeks? months? years? rows? lines? files?
    items? users? requests? retries times threads? workers? replicas? rpm rps qps fps sekunden?
    minuten? stunden? tagen? wochen? zeilen euro
"""
_UNIT = rf"(?:{_SIGNS}|(?:{'|'.join(_UNITS.split())})\b)"
_NUMBER = re.compile(
    rf"[\d$€£¥](?:(?<=\d)[\d.,]{{0,15}}+\s?{_UNIT}|(?<=\D)\s?\d[\d.,]{{0,15}}+)"
    r"|port [:#]?\d{2,5}|version \d[\w.]{0,15}|limit \d{1,15}|line \d{1,9}|issue #?\d{1,9}"
)
_ERRORS = """
    error, exception, traceback, failed, failure, fatal, panicked, segfault, exit code, exit status,
    exited with code, exited with status, denied, refused, timed out, not found, fehler,
    fehlgeschlagen, 错误, 失败
"""
_LONG_ERROR = re.compile(r"[:=\s]\s*\S+\s+\S|:\s*\S")
_QUOTE = re.compile(
    r"\"([^\"\n]{3,80})\"(?!\s{0,3}:)|“([^”\n]{3,80})”|„([^“\n]{3,80})“|`([^`\n]{3,80})`"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。\uff01\uff1f\uff1b])|\n+")
# Matched as whole words: "only" does not match in "onlyoffice".
_DEMANDS = """
    must, mustn't, never, always, only, don't, dont, do not, shall, should, shouldn't, can't,
    cannot, make sure, ensure, avoid, require, required, prefer, instead of, at most, at least,
    no more than, important, remember, forbidden, muss, musst, müssen, darf, dürfen, nie,
    niemals, immer, nur, unbedingt, bitte, soll, jamais, toujours, doit, doivent, il faut, ne pas,
    uniquement, nunca, siempre, debe, deben, solo, sólo, sempre, deve, devono, mai,
    нельзя, никогда, всегда, должен, должна, должны, обязательно, только, не надо
"""
# Scripts without spaces between words have no word boundaries to match.
_DEMANDS_WITHIN = """
    必须, 必須, 不要, 不能, 不得, 不可, 务必, 永远, 始终, 总是, 一定, 只能, 只用, 禁止, 请勿, 必ず,
    絶対, しないで, ください, 반드시, 절대, 항상
"""
_LISTED = re.compile(r"[-*>•#\s]*+(?:\d{1,2}[.)]\s)?(?:User: )?")


def _any_of(phrases: str, end: str = "") -> list[str]:
    return [re.escape(phrase.strip()) + end for phrase in phrases.split(",")]


# Literals in lower case: the search can skip to their first letters; with IGNORECASE it cannot.
_ERROR = re.compile("|".join(_any_of(_ERRORS)))
_DEMAND = re.compile("|".join(_any_of(_DEMANDS, r"\b") + _any_of(_DEMANDS_WITHIN)))


class Fact(NamedTuple):
    """A fact, identified by its `text`; `shown` is that text with a few words of context."""

    kind: FactKind
    text: str
    shown: str


def facts_in(text: str) -> Iterator[Fact]:
    """Yield the errors, URLs, numbers, paths and names in a text."""
    yield from _errors(text)
    for url in dict.fromkeys(_URL.findall(text)):
        yield from _bounded("url", url.rstrip(".,;:!?*"))
    yield from _numbers(text)
    without_tags = _URL.sub(" ", text).replace("</", " ")
    for word in dict.fromkeys(_WORD.findall(without_tags)):
        yield from _named(word)


def facts_of_user(text: str) -> Iterator[Fact]:
    """Yield a user's demands, then the facts of any text, then quotations."""
    for sentence in _SENTENCE_END.split(text):
        if found := _demand_in(_lowered(sentence)):
            demand = _around(sentence, *found)
            yield Fact("constraint", demand, demand)
    yield from facts_in(text)
    for groups in _QUOTE.findall(text):
        yield from _bounded("quote", "".join(groups).strip())


def _demand_in(sentence: str) -> tuple[int, int] | None:
    """Return the span of the first demand in a sentence, or None."""
    for found in _DEMAND.finditer(sentence):
        if not _is_inside(sentence, found.start()):
            return found.span()
    return None


def _is_inside(text: str, place: int) -> bool:
    """Return whether an index is inside a word or number; only ASCII text is checked."""
    before = text[place - 1 : place] if place else ""
    return before.isascii() and (before.isalnum() or before in "._") and before != ""


def _lowered(text: str) -> str:
    """Return the text in lower case, or unchanged if that would shift its indexes."""
    lowered = text.lower().replace("\u2019", "'")
    return lowered if len(lowered) == len(text) else text


def _named(word: str) -> Iterator[Fact]:
    word = word.removeprefix("**").lstrip(":=&?%").rstrip(".:?=&-*")
    if len(word) < 4 or (word.isalpha() and (word[1:].islower() or word.isupper())):
        return
    if "/" in word or "\\" in word:
        if _is_path(word):
            yield from _bounded("path", word)
    elif _NAME.search(word) and not _PLAIN_NUMBER.fullmatch(word):
        yield from _bounded("name", word)


def _is_path(word: str) -> bool:
    """Return whether a word is a path, not words with a slash between them."""
    if word.startswith(("/", "~", "./", "../", ".\\", "\\\\")) or _DRIVE.match(word):
        return any(map(str.isalpha, word[2:]))
    first, *more = word.replace("\\", "/").split("/")
    return min(len(first), len(more[0])) > 1 and first.lower() != "and" and not word[0].isdigit()


def _bounded(kind: FactKind, text: str) -> Iterator[Fact]:
    """Yield a fact, unless its text is too short or too long, or is a secret key."""
    if 1 < len(text) <= _MAX_NAME_CHARS and not is_key(text):
        yield Fact(kind, text, text)


def _numbers(text: str) -> Iterator[Fact]:
    """Yield numbers with the words before them, which name what is measured."""
    for found in _NUMBER.finditer(_lowered(text)):
        start, end = found.span()
        if _is_inside(text, start):
            continue
        earliest = max(0, start - _CONTEXT_CHARS)
        before = _SENTENCE_END.split(text[earliest:start])[-1]
        if earliest and len(before) == start - earliest:
            before = before.partition(" ")[2]
        yield Fact("number", text[start:end], _listed(before + text[start:end]))


def _errors(text: str) -> Iterator[Fact]:
    """Yield the lines that report a failure with some detail."""
    end = 0
    for found in _ERROR.finditer(_lowered(text)):
        if found.start() < end:
            continue
        start = max(end, found.start() - LONGEST_FACT // 2)
        start = max(start, text.rfind("\n", start, found.start()) + 1)
        end = text.find("\n", found.end(), start + LONGEST_FACT)
        end = max(found.end(), end if end >= 0 else min(len(text), start + LONGEST_FACT))
        line = _listed(text[start:end])
        if _LONG_ERROR.search(line):
            yield Fact("error", line, line)


def _around(sentence: str, start: int, end: int) -> str:
    """Return a sentence, or the part of a long one around the match `start:end`."""
    if len(sentence) > LONGEST_FACT:
        begin = max(0, min(start - LONGEST_FACT // 2, len(sentence) - LONGEST_FACT))
        sentence = sentence[begin : max(end, begin + LONGEST_FACT)]
    return _listed(sentence)


def _listed(line: str) -> str:
    """Return a text without its list marker, on one line with single spaces."""
    return " ".join(_LISTED.sub("", line, count=1).split())
