"""Short ids for messages that left the prompt: `r7` is number 7 of the client's messages."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from chat_proxy.chat.tool_names import ResultCall
from chat_proxy.compaction.ageing.line import cut_end, shown_call
from chat_proxy.compaction.summary.notes.units import NumberedMessage
from chat_proxy.compaction.summary.sanitise import sanitised
from chat_proxy.compaction.summary.words import user_text

TOOL_NAME: Final = "chat_proxy_recall"
CONTENTS_TOKENS: Final = 90
"""The most tokens of the list of what can be recalled."""
CONTENTS_SHARE: Final = 0.08

_CONTENTS_HEAD: Final = f"[Recall: {TOOL_NAME} returns the original messages"
_CONTENTS: Final = re.compile(rf"^{re.escape(_CONTENTS_HEAD)} .*\]$", re.MULTILINE)
_REFERENCE: Final = re.compile(r"\s*\[?(?:recall: )?[r#]?(\d{1,6})\]?\s*", re.IGNORECASE)
_TOPIC_CHARS: Final = 48
_CALL_BYTES: Final = 40
_LEAST_TOPICS: Final = 4
_MOST_TOPICS: Final = 24

Count = Callable[[str], int]


def reference(number: int) -> str:
    """Return the id of a message."""
    return f"r{number}"


def number_in(text: str) -> int | None:
    """Return the number that an id names, in any form that models write; None if it is none."""
    found = _REFERENCE.fullmatch(text)
    return int(found[1]) if found else None


def place_note(number: int) -> str:
    """Return the note that names the id of a whole tool result, after a space."""
    return f" [recall: {reference(number)}]"


def contents_line(
    messages: Sequence[NumberedMessage], calls: Mapping[int, ResultCall], room: int, count: Count
) -> str:
    """Return the line that lists which folded messages can be recalled, within a few tokens.

    The topics are what the user asked for, and calls where the user said little; they are spread
    over the messages.
    """
    if not messages:
        return ""
    first, last = messages[0][0], messages[-1][0]
    span = reference(first) if first == last else f"{reference(first)}-{reference(last)}"
    head = f"{_CONTENTS_HEAD} {span} by id, or finds text in them"
    topics = _topics(messages, calls)
    left = min(CONTENTS_TOKENS, int(room * CONTENTS_SHARE)) - count(head)
    kept: list[str] = []
    for size in range(min(len(topics), _MOST_TOPICS), 1, -1):
        kept = _spread(topics, size)
        if count("; ".join(kept)) <= left:
            break
        kept = []
    return f"{head}: {'; '.join(kept)}]" if kept else f"{head}]"


def without_contents(text: str) -> str:
    """Return a folded text without the line that lists what can be recalled."""
    kept: list[str] = []
    begin = 0
    for line in _CONTENTS.finditer(text):
        kept.append(text[begin : line.start()].rstrip("\n"))
        begin = line.end()
    return "".join([*kept, text[begin:]])


def _topics(messages: Sequence[NumberedMessage], calls: Mapping[int, ResultCall]) -> list[str]:
    said = [(number, _first_words(user_text(it))) for number, it in messages if it.is_user]
    topics = [(number, words) for number, words in said if words]
    if len(topics) < _LEAST_TOPICS:
        results = (number for number, message in messages if message.is_tool_result)
        topics += [
            (number, shown_call(calls[number], _CALL_BYTES))
            for number in results
            if number in calls
        ]
        topics.sort()
    return [f"{reference(number)} {words}" for number, words in topics]


def _first_words(text: str) -> str:
    line = next((line for line in sanitised(text).splitlines() if line.strip()), "")
    return cut_end(" ".join(line.replace("[", "(").replace("]", ")").split()), _TOPIC_CHARS)


def _spread(items: list[str], size: int) -> list[str]:
    """Return so many items, evenly spread, the first and the last among them."""
    if size >= len(items):
        return items
    if size == 1:
        return items[-1:]
    step = (len(items) - 1) / (size - 1)
    return [items[round(at * step)] for at in range(size)]
