"""The sections of a summary: find them in an answer, fill those that are absent."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

NONE_LINE: Final = "- (none)"

_FENCE = "```"

# The text in brackets explains a heading; it is no part of the title.
_HEADING = re.compile(
    r"[ \t]*+(?![-*+>•|][ \t])(?>(?P<mark>#{1,6}+[ \t]*+(?:\*\*|__)?|\*\*|__)?)"
    r"(?>(?P<number>\d{1,2}[.)、][ \t]*+(?:\*\*|__)?)?)"
    r"(?P<title>(?>(?:[^\n:\uff1a(\uff08*_]|_(?!_)){1,80}))"
    r"(?>(?:[(\uff08][^()\uff08\uff09\n]{0,120}[)\uff09])?)"
    r"[ \t*_]*+(?P<colon>[:\uff1a]?+)[ \t*_]*+(?P<rest>.*)"
)
_WORD = re.compile(r"[^\W_]+")
_DASH = re.compile(r"[ \t][-\u2013\u2014][ \t]")
_NO_CONTENT = re.compile(
    r"[\W_]*+(?:none|n/a|nothing|keine?|无|無|なし|нет)?[\W_]*+", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading that a summary must have, and the headings of its parts."""

    title: str
    parts: tuple[str, ...] = ()


Sections = tuple[Section, ...]
Bodies = Mapping[str, Sequence[str]]
"""The lines under each heading that was found, by its title."""


def outline(sections: Sections) -> str:
    """Return the headings of all sections, one per line."""
    return "\n".join(line for section in sections for line in _headings(section))


def bodies_in(text: str, sections: Sections) -> Bodies:
    """Return the lines under each heading; what precedes the first heading is left out."""
    titles = {key_of(title): title for title in _titles(sections)}
    bodies: dict[str, list[str]] = {}
    found: list[str] | None = None
    for line in text.splitlines():
        title, rest = _heading_in(line, titles)
        if title:
            found = bodies.setdefault(title, [])
            found += [f"- {rest}"] if rest else []
        elif found is not None:
            found.append(line.rstrip())
    return {title: _trimmed(lines) for title, lines in bodies.items()}


def missing_in(bodies: Bodies, sections: Sections) -> tuple[str, ...]:
    """Return the sections without a heading; a heading of a part counts as its section."""
    return tuple(
        section.title
        for section in sections
        if section.title not in bodies and not any(part in bodies for part in section.parts)
    )


def written(bodies: Bodies, sections: Sections) -> str:
    """Return a summary with every section in its order; "- (none)" stands in an empty one."""
    return "\n".join(line for section in sections for line in _lines_of(section, bodies))


def has_content(line: str) -> bool:
    """Return whether a line is neither a heading nor empty nor "(none)"."""
    return not line.startswith("#") and not _NO_CONTENT.fullmatch(line)


def content_of(text: str) -> str:
    """Return the lines of a summary that have content."""
    return "\n".join(line for line in text.splitlines() if has_content(line))


def key_of(title: str) -> str:
    """Return a title for comparison: without case, "and", signs and plural."""
    words = _WORD.findall(title.lower().replace("&amp;", "&"))
    return " ".join(word for word in words if word != "and").rstrip("s")


def _titles(sections: Sections) -> Iterator[str]:
    for section in sections:
        yield section.title
        yield from section.parts


def _headings(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    yield from (f"### {part}" for part in section.parts)


def _heading_in(line: str, titles: Mapping[str, str]) -> tuple[str, str]:
    """Return the title that a line begins a section with, in any markup, and the line's rest."""
    match = _HEADING.match(line)
    if match is None:
        return "", ""
    is_marked = bool(match["mark"] or match["number"])
    if not match["colon"] and (not is_marked or match["rest"]):
        return "", ""
    title = titles.get(key_of(match["title"]))
    if title is None and match["mark"]:
        title = titles.get(key_of(_DASH.split(match["title"])[0]))
    return (title, match["rest"].strip()) if title else ("", "")


def _trimmed(lines: list[str]) -> list[str]:
    """Drop blank lines at both ends, and the end of a code fence that begins before the section."""
    text = "\n".join(lines).strip("\n")
    if text.count(_FENCE) % 2 and text.endswith(_FENCE):
        text = text.removesuffix(_FENCE).rstrip("\n")
    return text.splitlines()


def _lines_of(section: Section, bodies: Bodies) -> Iterator[str]:
    yield f"## {section.title}"
    own = bodies.get(section.title, ())
    yield from own
    if any(part in bodies for part in section.parts) or (section.parts and not own):
        for part in section.parts:
            yield f"### {part}"
            yield from bodies.get(part) or (NONE_LINE,)
    elif not own:
        yield NONE_LINE
