"""A summary made without a model: the first words of messages and results, and the tool calls."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from chat_proxy.chat.message import Message
from chat_proxy.chat.texts import calls_of
from chat_proxy.compaction.summary.sanitise import sanitised

HEAD: Final = "(No model could write a summary. These are the messages' first words, oldest first.)"

_MAX_LINE_CHARS = 200
_LEFT_OUT = "- [{} older lines left out]"
_LEFT_OUT_TOKENS = 12
_NOTE = re.compile(r"- \[\d+ older lines left out\]")


def digest(
    messages: Sequence[Message], budget_tokens: int, count: Callable[[str], int], earlier: str = ""
) -> str:
    """Return one line per message text and per tool call; over budget, the oldest are left out.

    An earlier summary stays in front. The lines of an earlier digest are treated like new ones;
    otherwise every digest would be longer than the last.
    """
    summary, _, before = earlier.partition(HEAD)
    lines = [line for line in before.splitlines() if line and not _NOTE.fullmatch(line)]
    lines += [line for message in messages for line in _lines_of(message)]
    remaining = budget_tokens - count(HEAD) - _LEFT_OUT_TOKENS
    kept = 0
    for line in reversed(lines):
        remaining -= count(line) + 1
        if remaining < 0:
            break
        kept += 1
    left_out = len(lines) - kept
    note = [_LEFT_OUT.format(left_out)] if left_out else []
    text = "\n".join([HEAD, *note, *lines[left_out:]])
    return f"{summary.rstrip()}\n\n{text}" if summary.strip() else text


def _lines_of(message: Message) -> Iterator[str]:
    """Yield a line for the text and one for each call; user texts are kept verbatim elsewhere."""
    if not message.is_user:
        kind = "tool_result" if message.is_tool_result else "text"
        words = " ".join(text for piece_kind, text in message.pieces() if piece_kind == kind)
        if first := _first_words(words):
            yield f"- {_speaker(message)}: {first}"
    for name, arguments in calls_of(message.fields):
        yield f"- called {_first_words(name)}({_first_words(arguments)})"


def _speaker(message: Message) -> str:
    return "result" if message.is_tool_result else _first_words(message.role) or "message"


def _first_words(text: str) -> str:
    """Return the first line that is not blank, cut to `_MAX_LINE_CHARS` characters."""
    head = sanitised(text[: 20 * _MAX_LINE_CHARS])
    first = next((line.strip() for line in head.splitlines() if line.strip()), "")
    return first if len(first) <= _MAX_LINE_CHARS else first[: _MAX_LINE_CHARS - 1] + "…"
