"""The tool by which a model asks for what left its prompt: its definition, and a call's wish."""

import json
from typing import Any, Final, NamedTuple

from chat_proxy.compaction.recall.references import TOOL_NAME

DEFINITION: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": (
            "Return earlier messages of this conversation that were shortened or left out above. "
            "Give `id` (r7, #7 as r7, or an offload id) for a whole message, with `from` and "
            "`lines` for a part of a long one, or `search` to find text in all of them."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The message, such as r7."},
                "search": {"type": "string", "description": "Words to look for."},
                "from": {"type": "integer", "description": "The first line to return."},
                "lines": {"type": "integer", "description": "How many lines to return."},
            },
        },
    },
}
"""In the words of chat completions."""

MOST_LINES: Final = 10_000


class Wish(NamedTuple):
    """What a call asks for: a message or a search."""

    name: str = ""
    search: str = ""
    first_line: int = 1
    lines: int = MOST_LINES


def wish_of(arguments: str) -> Wish | None:
    """Return what the arguments of a call ask for; None if they ask for nothing."""
    try:
        fields = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    if type(fields) is not dict:
        return None
    name, search = _text(fields.get("id")), _text(fields.get("search"))
    if not name and not search:
        return None
    first, lines = _count(fields.get("from"), 1), _count(fields.get("lines"), MOST_LINES)
    return Wish(name, search, first, min(lines, MOST_LINES))


def _text(value: Any) -> str:
    if type(value) is int:
        return str(value)
    return value.strip()[:1_000] if type(value) is str else ""


def _count(value: Any, default: int) -> int:
    if type(value) is str and value.isdecimal() and len(value) < 10:
        value = int(value)
    return value if type(value) is int and value > 0 else default
