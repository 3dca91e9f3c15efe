"""Which messages belong together: a call with its results, and the media that came with them."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from chat_proxy.chat.media import is_media
from chat_proxy.chat.message import Message
from chat_proxy.chat.texts import RESULT_ROLES

# How agents introduce the media of a tool's result that they send as a user message.
_LABEL = re.compile(
    r"\W{0,2}(?:(?:here (?:is|are) )?the )?(?:attach|images?\b|screenshots?\b|media\b|files?\b)"
    r"[^?!\n]{0,60}(?:\btool|\bresults?\b|\boutputs?\b|:)[^?!\n]{0,30}",
    re.IGNORECASE,
)


class Group(NamedTuple):
    """The messages `start:end` that stay together: one, or tool calls with their results."""

    start: int
    end: int


def attachments_in(messages: Sequence[Message]) -> frozenset[int]:
    """Return the indexes of user messages that only carry the media of the results before them.

    Agents send them because a tool message may have no media: they begin no turn.
    """
    found = set()
    is_behind = False
    for index, message in enumerate(messages):
        role = message.role
        is_behind = role in RESULT_ROLES or (
            is_behind and role == "user" and _only_attaches(message.content)
        )
        if is_behind and role == "user":
            found.add(index)
    return frozenset(found)


def group_ends(messages: Sequence[Message], attachments: frozenset[int]) -> tuple[int, ...]:
    """Return the index at which each group ends."""
    ends = enumerate(_furthest_ends(messages, attachments), 1)
    return tuple(index for index, end in ends if end == index)


def groups_between(ends: Sequence[int]) -> tuple[Group, ...]:
    """Return the groups that end at these indexes."""
    return tuple(map(Group._make, pairwise((0, *ends))))


def _only_attaches(content: Any) -> bool:
    """Return whether a content has media and at most a label for them."""
    if type(content) is not list:
        return False
    others = [part for part in content if not (type(part) is dict and is_media(part))]
    return len(others) < len(content) and all(map(_is_label, others))


def _is_label(part: Any) -> bool:
    text = part.get("text") if type(part) is dict and part.get("type") == "text" else part
    return type(text) is str and (not text.strip() or bool(_LABEL.fullmatch(text.strip())))


def _furthest_ends(messages: Sequence[Message], attachments: frozenset[int]) -> Iterator[int]:
    """Return, for each message, the end of the last tool result of it and those before it."""
    ends = list(range(1, len(messages) + 1))
    calls = _OpenCalls()
    caller: int | None = None
    for index, message in enumerate(messages):
        role = message.role
        if role in RESULT_ROLES:
            caller = calls.take(message.answers)
            if caller is not None:
                ends[caller] = index + 1
        elif index in attachments:
            if caller is not None:
                ends[caller] = index + 1
        elif role == "assistant" and message.calls_tools:
            calls.open(index, _keys_of_calls(message))
        else:
            calls.last = None
    return accumulate(ends, max)


def _keys_of_calls(message: Message) -> Sequence[str | None]:
    """Return the ids of the calls, plus None if one has no id (legacy calls never have one)."""
    ids = message.call_ids
    calls: Any = message.fields.get("tool_calls")
    if ids and len(ids) == len(calls) and not message.fields.get("function_call"):
        return ids
    return (*ids, None)


class _OpenCalls:
    """The calls without a result so far, found by id in constant time."""

    def __init__(self) -> None:
        self.last: int | None = None
        """The index of the calling message whose results are being read; None after any other."""
        self._waiting: dict[str | None, list[int]] = {}
        self._newest: dict[str | None, int] = {}

    def open(self, index: int, keys: Sequence[str | None]) -> None:
        """Record a calling message and the ids of the results that it expects."""
        self.last = index
        for key in keys:
            self._newest[key] = index
            if key in self._waiting:
                self._waiting[key].append(index)
            else:
                self._waiting[key] = [index]

    def take(self, key: str | None) -> int | None:
        """Return the index of the nearest message that still expects this result.

        A second result for a call, or a result for a call without an id, belongs to the calling
        message that it follows.
        """
        waiting = self._waiting.get(key)
        if waiting and (key is not None or self.last in (None, waiting[-1])):
            return waiting.pop()
        if key is None or self.last in (self._newest.get(key), self._newest.get(None)):
            return self.last
        return None
