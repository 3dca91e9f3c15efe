"""A tool result or call that is shortened: its head, its tail, and the errors in between."""

import json
import re
from typing import Any, Final

from chat_proxy.chat.normal_form.canonical import is_complex_json
from chat_proxy.compaction.ageing.important import MAX_LINE_CHARS, important_lines
from chat_proxy.compaction.truncate_text import (
    Note,
    byte_count,
    omission_note,
    place_in,
    shortened,
)

ERRORS_SHARE: Final = 4
"""The maximum divided by this is the most that the errors of the omitted middle may take."""
SCANNED_CHARS: Final = 200_000

_MIDDLE = re.compile(r"\[Tool output truncated: omitted \d{1,20} chars\](?: \[[^\]\n]*\])?")


def short_result(text: str, max_bytes: int, tool: str, where: str = "") -> str:
    """Return a result in at most `max_bytes` bytes; `where` names the place of the whole text."""
    note = _note_for(text, where)
    plain = shortened(text, max_bytes, note)
    if plain is text:
        return text
    errors = _errors_between(text, plain, tool, max_bytes // ERRORS_SHARE)
    if not errors:
        return plain
    block = "\n".join(errors)
    shorter = shortened(
        text, max_bytes - byte_count(block) - 1, lambda omitted: f"{note(omitted)}\n{block}"
    )
    return shorter if byte_count(shorter) <= max_bytes and _MIDDLE.search(shorter) else plain


def short_arguments(arguments: Any, max_bytes: int) -> Any:
    """Return a call's arguments with every long string cut; JSON stays valid JSON."""
    if type(arguments) is not str:
        return _cut_strings(arguments, max_bytes)
    if byte_count(arguments) <= max_bytes:
        return arguments
    if is_complex_json(arguments):
        return arguments
    try:
        document = json.loads(arguments)
    except RecursionError:
        return arguments
    except ValueError:  # no JSON, as the input of custom tools
        return short_text(arguments, max_bytes)
    return json.dumps(_cut_strings(document, max_bytes), ensure_ascii=False)


def short_text(text: str, max_bytes: int) -> str:
    """Return a text in at most `max_bytes` bytes, cut in the middle."""
    return shortened(text, max_bytes, lambda omitted: f"[omitted {omitted} chars]")


def _cut_strings(value: Any, max_bytes: int) -> Any:
    if type(value) is str:
        return short_text(value, max_bytes)
    if type(value) is dict:
        return {key: _cut_strings(item, max_bytes) for key, item in value.items()}
    if type(value) is list:
        return [_cut_strings(item, max_bytes) for item in value]
    return value


def _note_for(text: str, where: str) -> Note:
    """Return the note builder for a text; a text that was truncated before keeps its place."""
    place = place_in(text) or where
    return lambda omitted: omission_note(omitted, None) + place


def _errors_between(text: str, plain: str, tool: str, max_bytes: int) -> list[str]:
    """Return the failing tests and errors of the part that is left out, as many as fit."""
    middle = _omitted_part(text, plain)
    chosen: list[str] = []
    for line in important_lines(middle, tool):
        shown = line[:MAX_LINE_CHARS]
        max_bytes -= byte_count(shown) + 1
        if max_bytes < 0:
            break
        if shown not in plain:
            chosen.append(shown)
    return chosen


def _omitted_part(text: str, plain: str) -> str:
    found = _MIDDLE.search(plain)
    head = len(plain[: found.start()]) if found else 0
    tail = len(plain) - found.end() if found else 0
    return text[max(0, head - 1) : max(0, len(text) - tail)][:SCANNED_CHARS]
