"""Parsing a large document value by value instead of in one go.

A thread that does so lets others run between two values; one call for it all would hold up the
whole process, as the interpreter cannot be taken from a parser.
"""

from collections.abc import Callable
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from typing import Any

Scan = Callable[[str, int], tuple[Any, int]]
PairsHook = Callable[[list[tuple[str, Any]]], dict[str, Any]]

LEVELS = 4  # request, messages, message, parts


def in_steps(scan: Scan, root: PairsHook | None = None, levels: int = LEVELS) -> Scan:
    """Return a scanner that goes through the outer levels itself; `root` gets the outermost pairs.

    It takes the standard library's own way for when its C scanner is missing.
    """
    if not levels:
        return scan
    inner = in_steps(scan, None, levels - 1)
    names: dict[str, str] = {}

    def scan_once(text: str, place: int) -> tuple[Any, int]:
        opening = text[place : place + 1]
        if opening == "{":
            found = JSONObject((text, place + 1), True, inner, None, root, names)
        elif opening == "[":
            found = JSONArray((text, place + 1), inner)
        else:
            found = scan(text, place)
        value, end = found
        return value, end

    return scan_once
