"""Remove the wrapping that clients put around tool output: tags, JSON, line numbers."""

import json
import re
from typing import Any, Final

LARGEST_JSON_CHARS: Final = 200_000

_TEXT_KEYS = ("output", "stdout", "content", "result", "text", "body")
_EXIT_KEYS = ("exit", "exit_code", "exitCode", "returncode", "code")
_TAG_LINE = re.compile(
    r"^[^\S\n]*+</?(?:path|content|file|file_content|result|output|stdout|type|entries|document)"
    r"(?:\s[^<>]{0,200})?>[^\S\n]*+$",
    re.MULTILINE,
)
_TAGGED_LINE = re.compile(r"^[^\S\n]*+<(path|type)>[^<>\n]{0,400}</\1>[^\S\n]*+$", re.MULTILINE)
_NUMBER = re.compile(r"^\s{0,8}\d{1,6}(?:\t|\||→|: )\s?", re.MULTILINE)
_LEAST_NUMBERED = 3


def unwrapped(text: str) -> str:
    """Return tool output without the wrapping around it; the text itself if there is none."""
    inner = _inner_text(text)
    inner = _TAGGED_LINE.sub("", _TAG_LINE.sub("", inner)) if "<" in inner else inner
    if len(_NUMBER.findall(inner[:2_000])) >= _LEAST_NUMBERED:
        inner = _NUMBER.sub("", inner)
    return inner.strip("\n") or text


def _inner_text(text: str) -> str:
    """Return the text within a JSON object, with its exit status if it has one."""
    if text.lstrip()[:1] != "{" or len(text) > LARGEST_JSON_CHARS:
        return text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    found = [document[key] for key in _TEXT_KEYS if _is_text(document.get(key))]
    if not found:
        return text
    status = _status_in(document)
    return "\n".join([*found, *([f"exit code {status}"] if status is not None else [])])


def _is_text(value: Any) -> bool:
    return type(value) is str and bool(value.strip())


def _status_in(document: dict[str, Any]) -> int | None:
    metadata = document.get("metadata")
    for place in (document, metadata if type(metadata) is dict else {}):
        for key in _EXIT_KEYS:
            if type(place.get(key)) is int:
                status: int = place[key]
                return status
    return None
