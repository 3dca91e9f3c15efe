"""Rules for the results of single tools, and which results of a conversation are the newest."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import embedded_results
from chat_proxy.chat.media import Path
from chat_proxy.chat.message import Message
from chat_proxy.chat.result_texts import texts_in

ToolRule = Literal["whole", "recent"] | int
"""Never cut, cut when no longer among the newest results, or cut to so many bytes at once."""

NamedRule = tuple[str, ToolRule]
"""A tool's name or a pattern with `*`, and its rule."""

WHOLE_MESSAGE: Path = ()


class ResultPlace(NamedTuple):
    """The position of a result: a tool message, or a block in a text of an assistant message."""

    message: int
    path: Path = WHOLE_MESSAGE
    ordinal: int = 0


def rule_for(rules: Sequence[NamedRule], tool: str) -> ToolRule | None:
    """Return the rule of a tool: the one of its name, else of the first pattern that matches."""
    for name, rule in rules:
        if name == tool:
            return rule
    return next((rule for pattern, rule in rules if _matches(pattern, tool)), None)


def newest_results(conversation: Conversation, count: int) -> frozenset[ResultPlace]:
    """Return the positions of the newest tool results, embedded ones included."""
    messages = conversation.messages
    newest_first = (
        place
        for index in reversed(range(len(messages)))
        for place in reversed(list(_results_in(index, messages[index])))
    )
    return frozenset(islice(newest_first, count))


def _results_in(index: int, message: Message) -> Iterator[ResultPlace]:
    if message.is_tool_result:
        yield ResultPlace(index)
    elif message.is_assistant:
        for path, text in texts_in(message):
            for ordinal, _ in enumerate(embedded_results(text)):
                yield ResultPlace(index, path, ordinal)


def _matches(pattern: str, name: str) -> bool:
    """Return whether the name matches, in linear time: clients choose the names of their tools."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == first
    *middle, last = rest
    start, end = len(first), len(name) - len(last)
    if start > end or not name.startswith(first) or not name.endswith(last):
        return False
    for part in middle:
        found = name.find(part, start, end)
        if found < 0:
            return False
        start = found + len(part)
    return True
