"""A JSON scanner that parses a large document value by value instead of in one call.

A single call would hold the GIL for the whole document and block the process; between two values
other threads can run.
"""

from collections.abc import Callable
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from typing import Any

Scan = Callable[[str, int], tuple[Any, int]]
PairsHook = Callable[[list[tuple[str, Any]]], dict[str, Any]]

LEVELS = 4  # request, messages, message, parts


def in_steps(scan: Scan, root: PairsHook | None = None, levels: int = LEVELS) -> Scan:
    """Return a scanner that walks the outer levels in Python; `root` receives the outermost pairs.

    It uses the functions that the standard library has for builds without its C scanner.
    """
    if not levels:
        return scan
    inner = in_steps(scan, None, levels - 1)
    names: dict[str, str] = {}

    def scan_once(text: str, position: int) -> tuple[Any, int]:
        opening = text[position : position + 1]
        if opening == "{":
            found = JSONObject((text, position + 1), True, inner, None, root, names)
        elif opening == "[":
            found = JSONArray((text, position + 1), inner)
        else:
            found = scan(text, position)
        value, end = found
        return value, end

    return scan_once
