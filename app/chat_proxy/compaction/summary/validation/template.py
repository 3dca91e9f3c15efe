"""Find the sections that an instruction for summaries asks for."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from chat_proxy.compaction.summary.validation.sections import Section, Sections, key_of

LEAST_SECTIONS: Final = 2
"""A single heading is taken for the title of the instruction."""

_MAX_TITLE_CHARS = 60
_MAX_TITLE_WORDS = 8
_MAX_NUMBERED_WORDS = 6
_FENCE = "```"
_MARKDOWN = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_BOLD = re.compile(
    r" {0,3}(?:\d{1,2}[.)、][ \t]*)?(?:\*\*|__)([^*\n]{1,80}?)(?:\*\*|__)[ \t]*[:\uff1a]?[ \t]*"
    r"(?:[(\uff08].{0,120}[)\uff09])?[ \t]*"
)
_NUMBERED = re.compile(r" {0,3}\d{1,2}[.)、][ \t]*(\S.*)")
_NUMBERED_TITLE = re.compile(
    r"(?:\*\*|__)(?P<bold>[^*\n]{1,80}?)(?:\*\*|__)|(?P<plain>[^:\uff1a\n]{1,80})(?:[:\uff1a]|\Z)"
)
_NUMBER = re.compile(r"[\s*_]*(?:\d{1,2}[.)、]\s*)?[\s*_]*")
_EXPLANATION = re.compile(r"[:\uff1a(\uff08\[<{]|[ \t][-\u2013\u2014][ \t]")
_SENTENCE_END = re.compile(r"[.!?;](?:\s|\Z)|[。\uff01\uff1f\uff1b]")
# Headings of the instruction itself, not of the summary that it asks for.
_OWN_TITLES = """
    role, task, instructions, rules, guidelines, output, output format, format, response format,
    example, example output
"""
_OF_INSTRUCTION = frozenset(map(key_of, _OWN_TITLES.split(",")))

_Heading = tuple[int, str]


def sections_of(template: str) -> Sections:
    """Return the sections that a template lists; none if it lists none.

    A template shows its headings in markdown, else as bold lines, else as a numbered list.
    """
    lines = template.splitlines()
    fenced = list(_fenced(lines))
    for part in (fenced, lines):
        sections = _nested(_markdown(part))
        if len(sections) >= LEAST_SECTIONS:
            return sections
    for titles in (_bold(lines), _numbered(lines)):
        sections = _nested([(1, title) for title in titles])
        if len(sections) >= LEAST_SECTIONS:
            return sections
    return ()


def _fenced(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines inside of code fences, where many templates show the outline."""
    is_inside = False
    for line in lines:
        if line.lstrip().startswith(_FENCE):
            is_inside = not is_inside
        elif is_inside:
            yield line


def _markdown(lines: Iterable[str]) -> list[_Heading]:
    matches = filter(None, map(_MARKDOWN.fullmatch, lines))
    headings = [(len(match[1]), _title_in(match[2])) for match in matches]
    headings = [(level, title) for level, title in headings if _is_of_summary(title)]
    # A single heading above all others is the title of the instruction.
    while len(headings) > 1 and headings[0][0] < min(level for level, _ in headings[1:]):
        del headings[0]
    return headings


def _bold(lines: Iterable[str]) -> list[str]:
    matches = filter(None, map(_BOLD.fullmatch, lines))
    titles = (_title_in(match[1]) for match in matches)
    return [title for title in titles if _is_of_summary(title)]


def _numbered(lines: Iterable[str]) -> list[str]:
    """Return the titles of a numbered list; none if one of its entries is a sentence."""
    entries = [match[1] for match in map(_NUMBERED.fullmatch, lines) if match]
    titles = [_numbered_title(entry) for entry in entries]
    return titles if all(titles) else []


def _numbered_title(entry: str) -> str:
    match = _NUMBERED_TITLE.match(entry)
    title = _title_in(match["bold"] or match["plain"]) if match else ""
    is_sentence = _SENTENCE_END.search(title) or len(title.split()) > _MAX_NUMBERED_WORDS
    return "" if is_sentence else title


def _title_in(text: str) -> str:
    """Return a heading without its number, emphasis and explanation; empty if it has no title."""
    start = _NUMBER.match(text)
    title = _EXPLANATION.split(text[start.end() if start else 0 :], maxsplit=1)[0]
    title = title.strip(" \t*_#")
    is_short = len(title) <= _MAX_TITLE_CHARS and len(title.split()) <= _MAX_TITLE_WORDS
    return title if is_short and key_of(title) else ""


def _is_of_summary(title: str) -> bool:
    return bool(title) and key_of(title) not in _OF_INSTRUCTION


def _nested(headings: list[_Heading]) -> Sections:
    """Return the highest headings with the lower ones after each as its parts, each title once."""
    top = min((level for level, _ in headings), default=0)
    seen: set[str] = set()
    found: list[tuple[str, list[str]]] = []
    for level, title in headings:
        if key_of(title) in seen or (level > top and not found):
            continue
        seen.add(key_of(title))
        if level == top:
            found.append((title, []))
        else:
            found[-1][1].append(title)
    return tuple(Section(title, tuple(parts)) for title, parts in found)
