"""Log lines for people: what matters first, in colour on a terminal, the other fields behind it."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from chat_proxy.telemetry.printable import printable

Fields = Mapping[str, Any]

REQUEST = "request"
"""The sentence of the lines that tell of one request each."""
_TOLD: Final = frozenset(
    [
        "status",
        "method",
        "route",
        "wire",
        "model",
        "tokens_before",
        "tokens_after",
        "compaction",
        "ms",
        "summary_wait_ms",
        "reason",
        "unfit",
        "phase",
    ]
)
"""The fields that the words of a request tell already, or that a person does not need."""
_USUAL: Final = {"mode": "on", "tenant": "anonymous"}
_DIM, _RED, _GREEN, _YELLOW = "2", "31", "32", "33"
_LEVEL_COLOURS: Final = {"warning": _YELLOW, "error": _RED}


class TextHead(NamedTuple):
    """The beginning of a readable line, shared by all lines that are written together."""

    clock: str
    level: str
    sentence: str
    has_colours: bool = False

    def paint(self, text: str, colour: str) -> str:
        """Return a text in a colour, if the line has colours."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.has_colours and text else text


def text_head(now: float, level: str, sentence: str) -> TextHead:
    """Return the beginning of a line without colours: time, level, sentence."""
    return TextHead(time.strftime("%H:%M:%S", time.localtime(now)), level, printable(sentence))


def coloured_head(now: float, level: str, sentence: str) -> TextHead:
    """Return the beginning of a line with colours."""
    return text_head(now, level, sentence)._replace(has_colours=True)


def text_line(head: TextHead, fields: Fields) -> str:
    """Return a readable line: its words, then `name=value` for each of the other fields."""
    level = head.paint(f"{head.level:7}", _LEVEL_COLOURS.get(head.level, _DIM))
    words, others = head.sentence, fields
    if head.sentence == REQUEST and "method" in fields:
        words = _request_words(head, fields)
        others = {
            name: value
            for name, value in fields.items()
            if name not in _TOLD and value != _USUAL.get(name)
        }
    rest = " ".join(f"{name}={printable(str(value))}" for name, value in others.items() if value)
    parts = (head.paint(head.clock, _DIM), level, words, head.paint(rest, _DIM))
    return " ".join(part for part in parts if part) + "\n"


def _request_words(head: TextHead, fields: Fields) -> str:
    """Return `200 POST chat qwen3 4,278→2,051 built 20.5 s (summary 13.2)`, and why it failed."""
    status = int(fields.get("status") or 0)
    compaction = fields.get("compaction", "none")
    words = (
        str(fields["method"]),
        str(fields.get("wire") or fields.get("route") or ""),
        str(fields.get("model") or ""),
        _tokens(fields),
        "" if compaction == "none" else str(compaction),
        _duration(float(fields.get("ms") or 0), float(fields.get("summary_wait_ms") or 0)),
    )
    reason = str(fields.get("reason") or "")
    told = " ".join([head.paint(f"{status or '---'}", _status_colour(status)), *_safe(words)])
    return f"{told} {head.paint(printable(reason), _YELLOW)}" if reason else told


def _safe(words: Iterable[str]) -> list[str]:
    """Return the words that are not empty; a client chooses some of them."""
    return [printable(word) for word in words if word]


def _status_colour(status: int) -> str:
    if 200 <= status < 400:
        return _GREEN
    return _YELLOW if 400 <= status < 500 else _RED


def _tokens(fields: Fields) -> str:
    before, after = fields.get("tokens_before"), fields.get("tokens_after")
    if before is None:
        return ""
    return f"{before:,} tokens" if after in (None, before) else f"{before:,}→{after:,}"


def _duration(ms: float, summary_ms: float) -> str:
    """Return the whole time, and in the same unit the part that went into a summary."""
    unit, divisor, digits = ("ms", 1, 0) if ms < 1000 else ("s", 1000, 1)
    waited = f" (summary {summary_ms / divisor:.{digits}f})" if summary_ms else ""
    return f"{ms / divisor:.{digits}f} {unit}{waited}"
