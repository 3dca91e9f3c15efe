"""Tool results that a front end embedded in an assistant's text as `<details>` blocks.

Two forms are known: the result is an escaped attribute of the block, or escaped text in its body.
In both it may be a JSON string. A block counts only if it is well formed and neither inside another
block nor around one. Everything else stays unchanged, as does a text with more than `MOST_BLOCKS`
blocks.
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
# All quantifiers are possessive: a hostile text costs one pass and cannot cause backtracking.
_NAME = r"[^\s\"'<>/=]++"
_TAG = re.compile(
    rf'<details(?![\w-])((?>(?:\s++{_NAME}(?>(?:="[^"]*+")?))*))\s*+>|<details(?![\w-])|</details\s*+>'
)
_ATTRIBUTE = re.compile(rf'\s({_NAME})="([^"]*+)"')
_SUMMARY = re.compile(r"\s*+<summary(?![\w-])[^<>]*+>")
_SUMMARY_END = "</summary>"
# The ampersand comes last: text that was escaped twice must stay escaped once.
_COMMON_ENTITIES = {
    "&quot;": '"',
    "&#34;": '"',
    "&#x27;": "'",
    "&#39;": "'",
    "&lt;": "<",
    "&gt;": ">",
    "&amp;": "&",
}
_SURROGATE = re.compile("[\ud800-\udfff]")


class EmbeddedResult(NamedTuple):
    """A tool's name and its result as plain text; empty if there is no result yet."""

    name: str
    text: str


def may_embed_results(content: str) -> bool:
    """Return whether there may be a result in the content, without reading its blocks."""
    return _BLOCK in content and _MARK in content


def embedded_results(content: str) -> tuple[EmbeddedResult, ...]:
    """Return the results of all well-formed blocks, in order."""
    return tuple(EmbeddedResult(slot.name, _decoded(slot, content)[0]) for slot in _slots(content))


def with_embedded_results(content: str, texts: Mapping[int, str]) -> str:
    """Return the content with the results at these ordinals replaced and all else unchanged."""
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
    """The characters `start:end` of a content that contain a result."""

    name: str
    start: int
    end: int
    is_attribute: bool


def _decoded(slot: _Slot, content: str) -> tuple[str, bool]:
    """Return the result as plain text, and whether it is encoded as a JSON string."""
    value = _unescaped(content[slot.start : slot.end])
    string = _json_string(value)
    return (value, False) if string is None else (string, True)


def _encoded(slot: _Slot, content: str, text: str, is_json: bool) -> str:
    """Encode a new text in the same way as the result of this slot."""
    raw = content[slot.start : slot.end]
    # A text in quotation marks would be decoded as a JSON string, so it must be encoded as one.
    if is_json or _json_string(text) is not None:
        text = _json_like(raw, text)
    text = _escaped_like(raw, text, slot.is_attribute)
    return text if slot.is_attribute else _with_escaped_newlines(slot, content, text)


def _with_escaped_newlines(slot: _Slot, content: str, text: str) -> str:
    """Escape newlines at the ends of a body that would otherwise count as part of the block."""
    if text.startswith("\n") and content[slot.start - 1] != "\n":
        text = "&#10;" + text[1:]
    if text.endswith("\n") and content[slot.end] != "\n":
        text = text[:-1] + "&#10;"
    return text


def _slots(content: str) -> list[_Slot]:
    """Return the slots of the results, in order; none if more than `MOST_BLOCKS` blocks begin."""
    if not may_embed_results(content) or content.count(_BLOCK) > MOST_BLOCKS:
        return []
    slots = (_slot_of(content, opening, end) for opening, end in _leaf_blocks(content))
    return [slot for slot in slots if slot is not None]


def _leaf_blocks(content: str) -> list[tuple[re.Match[str], int]]:
    """Return the opening tag and inner end of each block neither inside nor around another."""
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
    """Return the slot of the block's result: its attribute, else its body after the summary."""
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
    return _Slot(name, *_trim_newlines(content, start + len(_SUMMARY_END), end), is_attribute=False)


def _trim_newlines(content: str, start: int, end: int) -> tuple[int, int]:
    """Exclude one newline at each end: it belongs to the block, not to the result."""
    if content.startswith("\n", start, end):
        start += 1
    if content.endswith("\n", start, end):
        end -= 1
    return start, end


def _unescaped(value: str) -> str:
    """Return the same as `html.unescape`, many times faster if only common entities occur."""
    if value.count("&") != sum(map(value.count, _COMMON_ENTITIES)):
        return unescape(value)
    for entity, character in _COMMON_ENTITIES.items():
        value = value.replace(entity, character)
    return value


def _json_string(value: str) -> str | None:
    """Return the decoded text of a JSON string; None if the value is something else."""
    if not value.startswith('"') or not value.endswith('"'):
        return None
    try:
        string: str = json.loads(value)
    except ValueError:
        return None
    return string


def _json_like(raw: str, text: str) -> str:
    """Encode a text as a JSON string, in ASCII if `raw` is and no character would change."""
    ascii_only = raw.isascii() and "\\u" in raw and not _SURROGATE.search(text)
    return json.dumps(text, ensure_ascii=ascii_only)


def _escaped_like(raw: str, text: str, is_attribute: bool) -> str:
    """Escape what could be read as markup, and what is escaped in `raw`."""
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
