"""The details of a call that its line in the notes has no space for."""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from chat_proxy.chat.tool_names import ResultCall
from chat_proxy.compaction.ageing.line import cut_end
from chat_proxy.compaction.summary.sanitise import sanitised
from chat_proxy.compaction.summary.validation.foreign import without_keys

LONGEST_VALUE: Final = 60
"""The most characters of a value that is a detail; longer ones are texts and files."""
LONGEST_DETAILS: Final = 240
MAX_SCANNED_CHARS: Final = 20_000


def details_behind(shown: str, call: ResultCall) -> str:
    """Return the short values of a call's arguments that its shortened line does not show.

    Each value is listed once. What a booking or an order was made with is often nowhere else.
    """
    if not shown.endswith("…") or len(call.arguments) > MAX_SCANNED_CHARS:
        return ""
    try:
        arguments = orjson.loads(call.arguments)
    except ValueError:
        return ""
    values = dict.fromkeys(value for value in _short_values(arguments) if value not in shown)
    return cut_end(sanitised(without_keys(", ".join(values))), LONGEST_DETAILS)


def _short_values(arguments: Any) -> Iterator[str]:
    """Yield the short strings and the numbers, in order; arguments may be nested deeply."""
    left = [arguments]
    while left:
        value = left.pop()
        if type(value) is dict:
            left += reversed(value.values())
        elif type(value) is list:
            left += reversed(value)
        elif type(value) is str:
            text = " ".join(value.split())
            if text and len(text) <= LONGEST_VALUE:
                yield text
        elif type(value) in (int, float):
            yield str(value)
