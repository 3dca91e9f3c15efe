"""Tool results that a front end folded into an assistant's text, as `<details>` blocks.

Two forms are known: the result as an escaped attribute of the block, or as escaped text in its
body. In both it may be a JSON string. A block counts only if it is well formed, stands in no other
block and holds none; all else is left alone, and so is a text that is made of nothing but blocks.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from typing import NamedTuple

MOST_BLOCKS = 10_000

_BLOCK = "<details"
_MARK = 'type="tool_calls"'
# Possessive throughout: a text made to hurt costs one pass, not a search for other ways to match.
_NAME = r"[^\s\"'<>/=]++"
_TAG = re.compile(
    rf'<details(?![\w-])((?:\s++{_NAME}(?:="[^"]*+")?+)*+)\s*+>|<details(?![\w-])|</details\s*+>'
)
_ATTRIBUTE = re.compile(rf'\s({_NAME})="([^"]*+)"')
_SUMMARY = re.compile(r"\s*+<summary(?![\w-])[^<>]*+>")
_SUMMARY_END = "</summary>"
# The ampersand comes last: what it uncovers was escaped twice and stays escaped once.
_USUAL = {
    "&quot;": '"',
    "&#34;": '"',
    "&#x27;": "'",
    "&#39;": "'",
    "&lt;": "<",
    "&gt;": ">",
    "&amp;": "&",
}
_SURROGATE = re.compile("[\ud800-\udfff]")


class FoldedResult(NamedTuple):
    """A tool's name and its result as plain text; empty if the tool has not answered yet."""

    name: str
    text: str


def folded_results(content: str) -> tuple[FoldedResult, ...]:
    """Return the results of all well-formed blocks in their order."""
    return tuple(FoldedResult(slot.name, _decoded(slot, content)[0]) for slot in _slots(content))


def with_folded_results(content: str, texts: Mapping[int, str]) -> str:
    """Return the content with other results at these ordinals; every other character stays."""
    kept = []
    end = 0
    for ordinal, slot in enumerate(_slots(content)):
        text = texts.get(ordinal)
        if text is None:
            continue
        old, is_json = _decoded(slot, content)
        if text != old:
            kept += [content[end : slot.start], _encoded(slot, content, text, is_json)]
            end = slot.end
    return "".join([*kept, content[end:]])


@dataclass(frozen=True, slots=True)
class _Slot:
    """The characters `start:end` of a content that hold a result."""

    name: str
    start: int
    end: int
    is_attribute: bool


def _decoded(slot: _Slot, content: str) -> tuple[str, bool]:
    """Return the result as plain text, and whether it is written as a JSON string."""
    value = _unescaped(content[slot.start : slot.end])
    string = _json_string(value)
    return (value, False) if string is None else (string, True)


def _encoded(slot: _Slot, content: str, text: str, is_json: bool) -> str:
    """Write another text the way the result of this slot is written."""
    raw = content[slot.start : slot.end]
    # A text with quotes around it would be read as a JSON string, so it must become one.
    if is_json or _json_string(text) is not None:
        text = _json_like(raw, text)
    text = _escaped_like(raw, text, slot.is_attribute)
    return text if slot.is_attribute else _framed(slot, content, text)


def _framed(slot: _Slot, content: str, text: str) -> str:
    """Write newlines at the border of a body so that they are not taken for the frame."""
    if text.startswith("\n") and content[slot.start - 1] != "\n":
        text = "&#10;" + text[1:]
    if text.endswith("\n") and content[slot.end] != "\n":
        text = text[:-1] + "&#10;"
    return text


def _slots(content: str) -> list[_Slot]:
    """Return the places of the results, in their order; none where more begin than anybody runs."""
    if _BLOCK not in content or _MARK not in content or content.count(_BLOCK) > MOST_BLOCKS:
        return []
    slots = (_slot_of(content, opening, end) for opening, end in _leaf_blocks(content))
    return [slot for slot in slots if slot is not None]


def _leaf_blocks(content: str) -> list[tuple[re.Match[str], int]]:
    """Return the opening tag and the inner end of all blocks without a block inside or outside."""
    blocks: list[tuple[re.Match[str], int]] = []
    open_tags: list[re.Match[str]] = []
    last: re.Match[str] | None = None
    for tag in _TAG.finditer(content):
        if content[tag.start() + 1] != "/":
            open_tags.append(tag)
        elif open_tags:
            opening = open_tags.pop()
            while blocks and blocks[-1][0].start() > opening.start():
                blocks.pop()
            if opening is last:
                blocks.append((opening, tag.start()))
        last = tag
    return blocks


def _slot_of(content: str, opening: re.Match[str], end: int) -> _Slot | None:
    """Return where the block's result is: its attribute, else its body behind the summary."""
    attributes: dict[str, re.Match[str]] = {}
    for found in _ATTRIBUTE.finditer(content, *opening.span(1)):
        attributes.setdefault(found[1], found)
    summary = _SUMMARY.match(content, opening.end(), end)
    start = content.find(_SUMMARY_END, summary.end(), end) if summary else -1
    if start < 0 or "type" not in attributes or attributes["type"][2] != "tool_calls":
        return None
    name = _unescaped(attributes["name"][2]) if "name" in attributes else ""
    if "result" in attributes:
        return _Slot(name, *attributes["result"].span(2), is_attribute=True)
    return _Slot(name, *_inside(content, start + len(_SUMMARY_END), end), is_attribute=False)


def _inside(content: str, start: int, end: int) -> tuple[int, int]:
    """Leave out a newline on either side: it belongs to the block, not to the result."""
    if content.startswith("\n", start, end):
        start += 1
    if content.endswith("\n", start, end):
        end -= 1
    return start, end


def _unescaped(value: str) -> str:
    """Return what `html.unescape` does, many times faster if all is escaped as is usual."""
    if value.count("&") != sum(map(value.count, _USUAL)):
        return unescape(value)
    for entity, character in _USUAL.items():
        value = value.replace(entity, character)
    return value


def _json_string(value: str) -> str | None:
    """Return the text that a JSON string stands for; None if the value is something else."""
    if not value.startswith('"') or not value.endswith('"'):
        return None
    try:
        string: str = json.loads(value)
    except ValueError:
        return None
    return string


def _json_like(raw: str, text: str) -> str:
    """Write a text as a JSON string, in ASCII if that one is and no character would be changed."""
    ascii_only = raw.isascii() and "\\u" in raw and not _SURROGATE.search(text)
    return json.dumps(text, ensure_ascii=ascii_only)


def _escaped_like(raw: str, text: str, is_attribute: bool) -> str:
    """Escape what could be taken for markup, and what that one escapes."""
    text = text.replace("&", "&amp;")
    if not is_attribute or "<" not in raw:
        text = text.replace("<", "&lt;")
    if ">" not in raw:
        text = text.replace(">", "&gt;")
    if is_attribute or '"' not in raw:
        text = text.replace('"', "&quot;")
    if "'" not in raw:
        text = text.replace("'", "&#39;" if "&#39;" in raw else "&#x27;")
    return text
