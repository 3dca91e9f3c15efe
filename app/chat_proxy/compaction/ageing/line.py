"""One line in place of an old tool result: what was called, what came back, where the whole is."""

import re
from typing import Final

from chat_proxy.chat.tool_names import ResultCall
from chat_proxy.compaction.ageing.important import exit_status, important_lines, is_failing_test
from chat_proxy.compaction.ageing.unwrap import unwrapped
from chat_proxy.compaction.summary.sanitise import sanitised
from chat_proxy.compaction.truncate_text import byte_count

RESULT_NOTE: Final = "[Old tool result content cleared]"
LONGEST_LINE: Final = 200
"""The most bytes of a line without its place: about 55 tokens in most languages."""
LONGEST_CALL: Final = 90

_LEAST_CALL = 40
_MAX_EDGE_BYTES = 50
_MAX_FINDING_BYTES = 66
_SCANNED_CHARS = 100_000
_QUOTES = re.compile(r'[{}"]')
_ELLIPSIS = "…"


def shown_call(call: ResultCall, max_bytes: int = LONGEST_CALL) -> str:
    """Return a call on one line in at most `max_bytes` bytes."""
    tool = sanitised(call.tool[:80]).strip() or "tool"
    arguments = _QUOTES.sub("", sanitised(call.arguments[:1_000])).strip()
    return _cut(" ".join(f"{tool}({arguments})".split()), max_bytes)


def line_of(text: str, call: ResultCall, where: str = "") -> str:
    """Return the line that replaces a result; `where` names the place of the whole text.

    The text itself is returned if the line is not shorter.
    """
    inner = unwrapped(_ends(text))
    status = exit_status(inner)
    size = f"{len(text):,} chars" + (f"; exit {status}" if status else "")
    findings = _findings(inner, call.tool)
    # A long call gives way to failing tests and errors, not to the edges of a file.
    left = LONGEST_LINE - byte_count(f"{RESULT_NOTE}  → {size}; {findings}")
    max_call = max(_LEAST_CALL, min(left, LONGEST_CALL)) if findings else LONGEST_CALL
    facts = [f"{shown_call(call, max_call)} → {size}", findings or _first_and_last(inner)]
    line = _cut(f"{RESULT_NOTE} {'; '.join(filter(None, facts))}", LONGEST_LINE) + where
    return line if len(line) < len(text) else text


def _findings(text: str, tool: str) -> str:
    """Return the first failing test and how many more there are, or the first error."""
    important = list(important_lines(text, tool))
    if not important:
        return ""
    failing = sum(map(is_failing_test, important))
    more = f" and {failing - 1:,} more" if failing > 1 else ""
    return _cut(sanitised(important[0]), _MAX_FINDING_BYTES) + more


def _first_and_last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    edges = lines if len(lines) < 2 else [lines[0], lines[-1]]
    return " … ".join(_cut(sanitised(line), _MAX_EDGE_BYTES) for line in edges)


def _ends(text: str) -> str:
    if len(text) <= _SCANNED_CHARS:
        return text
    return f"{text[: _SCANNED_CHARS // 2]}\n{text[-_SCANNED_CHARS // 2 :]}"


def cut_end(text: str, max_chars: int) -> str:
    """Return the beginning of a text, with an ellipsis if it is cut."""
    return text if len(text) <= max_chars else text[: max_chars - 1].rstrip() + _ELLIPSIS


def _cut(text: str, max_bytes: int) -> str:
    """Return the beginning of a text by its bytes: a character of some scripts is a whole token."""
    if byte_count(text) <= max_bytes:
        return text
    head = text.encode()[: max_bytes - byte_count(_ELLIPSIS)].decode(errors="ignore")
    return head.rstrip() + _ELLIPSIS
