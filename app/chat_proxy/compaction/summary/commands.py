"""The command `/compact` in a conversation, and the proxy's replies to it."""

import re
from collections.abc import Sequence
from typing import Any, Final

COMPLETE: Final = "Compact Complete!"
FAILED: Final = "The conversation was not compacted:"

_COMPACT = re.compile(r"/compact(?:\s+(\S.*))?", re.DOTALL)


def instruction_in(message: dict[str, Any]) -> str | None:
    """Return the instruction after a command's name, None if the message is no command."""
    if message.get("role") != "user":
        return None
    content = message.get("content")
    if type(content) is list and len(content) == 1 and type(content[0]) is dict:
        content = content[0].get("text")
    if type(content) is not str or "/compact" not in content:
        return None  # almost all messages: skip the copy and the regex
    found = _COMPACT.fullmatch(content.strip())
    return (found[1] or "") if found else None


def is_answered_command(command: dict[str, Any], reply: dict[str, Any]) -> bool:
    """Return whether two messages are a command and the answer to it."""
    if reply.get("role") != "assistant" or reply.get("tool_calls"):
        return False
    return instruction_in(command) is not None


def after_commands(messages: Sequence[dict[str, Any]], start: int) -> int:
    """Return the index after the commands from `start` on to which the proxy itself replied.

    What they ask for is done, and the reply repeats the summary that stands before them.
    """
    while start + 1 < len(messages) and is_answered_command(*messages[start : start + 2]):
        content = messages[start + 1].get("content")
        if type(content) is not str or not content.startswith((COMPLETE, FAILED)):
            break
        start += 2
    return start


def without_commands(messages: Sequence[dict[str, Any]], start: int) -> list[int]:
    """Return the indexes from `start` on without the commands to which the proxy replied."""
    kept: list[int] = []
    index = start
    while (index := after_commands(messages, index)) < len(messages):
        kept.append(index)
        index += 1
    return kept
