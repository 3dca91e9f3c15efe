"""Remove reasoning from a model's answer, and detect tool calls written as text."""

import re

_REASONING_TAGS = r"think|thinking|thoughts?|reasoning|analysis"
_CALL_TAGS = r"tool_calls?|function_calls?"
# A tag after a backtick is quoted, not used.
_OPENING = re.compile(rf"(?<!`)[<\[]({_REASONING_TAGS}|{_CALL_TAGS})[>\]]", re.IGNORECASE)
_CLOSING = re.compile(
    rf"(?<!`)[<\[]/(?:{_REASONING_TAGS}|{_CALL_TAGS})[>\]](?=\s*+(?:\Z|#)|[ \t]*+\n)", re.IGNORECASE
)
_LEADING = re.compile(rf"\s*+[<\[]({_REASONING_TAGS})[>\]]", re.IGNORECASE)
_CALL = re.compile(rf"(?<!`)[<\[](?:{_CALL_TAGS})[>\]]", re.IGNORECASE)
_FINAL_CHANNEL = "<|channel|>final<|message|>"


def without_reasoning(answer: str) -> str:
    """Return the final answer: the text after the reasoning, or before reasoning left open."""
    text = answer.rpartition(_FINAL_CHANNEL)[2]
    text = "".join(_outside_of_tags(text))
    # Chat templates that open the reasoning themselves leave only its closing tag in the answer.
    closings = list(_CLOSING.finditer(text))
    return (text[closings[-1].end() :] if closings else text).strip()


def without_leading_thoughts(text: str) -> str:
    """Return a message of the history without the closed reasoning that it begins with."""
    opening = _LEADING.match(text)
    closing = _end_of(opening[1], text, opening.end()) if opening else None
    return text if closing is None else text[closing:].lstrip()


def holds_tool_protocol(answer: str) -> bool:
    """Return whether a tool call is written as text."""
    return _CALL.search(answer) is not None


def _outside_of_tags(text: str) -> list[str]:
    parts = []
    position = 0
    while opening := _OPENING.search(text, position):
        parts.append(text[position : opening.start()])
        closing = _end_of(opening[1], text, opening.end())
        if closing is None:
            return parts
        position = closing
    return [*parts, text[position:]]


def _end_of(name: str, text: str, start: int) -> int | None:
    """Return the index after the closing tag, or None if there is none."""
    closing = re.compile(rf"[<\[]/{name}[>\]]", re.IGNORECASE).search(text, start)
    return closing.end() if closing else None
