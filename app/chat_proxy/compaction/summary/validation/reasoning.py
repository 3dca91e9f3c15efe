"""Thoughts and tool protocol that a model wrote into its answer."""

import re

_THOUGHTS = r"think|thinking|thoughts?|reasoning|analysis"
_CALLS = r"tool_calls?|function_calls?"
# A tag behind a backtick is spoken about, not used.
_OPENING = re.compile(rf"(?<!`)[<\[]({_THOUGHTS}|{_CALLS})[>\]]", re.IGNORECASE)
_CLOSING = re.compile(
    rf"(?<!`)[<\[]/(?:{_THOUGHTS}|{_CALLS})[>\]](?=\s*+(?:\Z|#)|[ \t]*+\n)", re.IGNORECASE
)
_LEADING = re.compile(rf"\s*+[<\[]({_THOUGHTS})[>\]]", re.IGNORECASE)
_CALL = re.compile(rf"(?<!`)[<\[](?:{_CALLS})[>\]]", re.IGNORECASE)
_FINAL_CHANNEL = "<|channel|>final<|message|>"


def without_reasoning(answer: str) -> str:
    """Return what the model meant to say: what follows its thoughts, or precedes open ones."""
    text = answer.rpartition(_FINAL_CHANNEL)[2]
    text = "".join(_outside_of_tags(text))
    # Templates that open the thoughts themselves leave only their end in the answer.
    closings = list(_CLOSING.finditer(text))
    return (text[closings[-1].end() :] if closings else text).strip()


def without_leading_thoughts(text: str) -> str:
    """Return a message of the history without the closed thoughts it begins with."""
    opening = _LEADING.match(text)
    closing = _end_of(opening[1], text, opening.end()) if opening else None
    return text if closing is None else text[closing:].lstrip()


def holds_tool_protocol(answer: str) -> bool:
    """Tell whether a tool call is written as text."""
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
    """Return the place behind the closing tag."""
    closing = re.compile(rf"[<\[]/{name}[>\]]", re.IGNORECASE).search(text, start)
    return closing.end() if closing else None
