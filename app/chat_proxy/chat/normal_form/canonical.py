"""Canonical bytes of messages and other values: the same for any order of keys."""

import json
import re
from typing import Any

import orjson

from chat_proxy.chat.media import MAX_DEPTH

MAX_MARKS = 100_000

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def canonical_bytes(fields: dict[str, Any]) -> bytes:
    """Serialise a message with sorted keys and without cache marks.

    Clients move cache marks from message to message between requests.
    """
    if _has_cache_marks(fields, MAX_DEPTH):
        return _dumped(_without_cache_marks(fields, MAX_DEPTH))
    return _dumped(fields)


def _dumped(fields: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        text = json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return _LONE_SURROGATE.sub("\ufffd", text).encode()


def _has_cache_marks(part: dict[str, Any], depth: int) -> bool:
    if "cache_control" in part:
        return True
    content = part.get("content")
    if type(content) is not list or not depth:
        return False
    return any(type(item) is dict and _has_cache_marks(item, depth - 1) for item in content)


def _without_cache_marks(part: dict[str, Any], depth: int) -> dict[str, Any]:
    """Copy a message or part without cache marks; arguments and other values are unchanged."""
    kept = {key: value for key, value in part.items() if key != "cache_control"}
    content = kept.get("content")
    if depth and type(content) is list:
        kept["content"] = [
            _without_cache_marks(item, depth - 1) if type(item) is dict else item
            for item in content
        ]
    return kept


def is_complex_json(text: str) -> bool:
    """Return whether JSON in a string has so many values that it is not worth parsing.

    It would take many times the memory of its text, and more than the request is counted for.
    """
    return len(text) > MAX_MARKS and sum(map(text.count, "{[,")) > MAX_MARKS
