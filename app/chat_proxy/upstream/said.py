"""An upstream's own words about an error, made safe for logs, pages and error bodies."""

import re
from typing import Any, Final

import orjson

MAX_CHARS = 200
ECHO_WORDS = 4
"""So many words in a row that the request has too are taken for a quotation of it."""

# Validation errors quote the values that they refuse.
_QUOTED = re.compile(r"'[^']{33,}'|\"[^\"]{33,}\"|`[^`]{33,}`|\{.*\}|\[.{33,}\]", re.DOTALL)
_KEY = re.compile(r"(?i)\b(?:(?:sk|pk|key|hf|gsk|xai)[-_]|bearer\s+)\S{4,}|\b[A-Za-z0-9_-]{40,}\b")
_LINK: Final = re.compile(r"https?://\S+")


def said_in(body: bytes, request: bytes) -> str:
    """Return the message of an error body, short, and without what it quotes of the request."""
    words = " ".join(_message_in(body).split())
    words = _LINK.sub("…", _KEY.sub("…", _QUOTED.sub("…", words)))
    words = "".join(char if char.isprintable() else "?" for char in words)
    words = _before_echo(words, request)
    if words and words[-1] not in ".!?…":
        words += "."
    return words if len(words) <= MAX_CHARS else words[: MAX_CHARS - 1].rstrip() + "…"


def _message_in(body: bytes) -> str:
    """Return the message in the shapes of OpenAI, vLLM, Anthropic and FastAPI; empty if none."""
    try:
        document: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    for name in ("error", "detail", "message"):
        while isinstance(document, dict) and name in document:
            document = document[name]
    return document if isinstance(document, str) else ""


def _before_echo(words: str, request: bytes) -> str:
    """Return the words up to the first ones that stand in the request in the same order."""
    parts = words.split(" ")
    for start in range(len(parts) - ECHO_WORDS + 1):
        if " ".join(parts[start : start + ECHO_WORDS]).encode() in request:
            return " ".join([*parts[:start], "…"])
    return words
