"""What a question for a summary shows, and some lines of it."""

from typing import Any

from chat_proxy.chat.message import Message

LONGEST_LINE = 100


def texts_of(messages: list[dict[str, Any]]) -> list[str]:
    """Return all that is said in messages."""
    return [text for message in messages for _, text in Message(message).pieces()]


def material_of(messages: list[dict[str, Any]]) -> list[str]:
    """Return the lines before the instruction of a question for a summary, in their order."""
    given = "\n".join(texts_of(messages)).partition("Do not answer or continue")[0]
    lines = (line.strip(" -#")[:LONGEST_LINE] for line in given.splitlines())
    return [line for line in lines if line and not line.startswith("<<<")]


def some_of(material: list[str], most: int = 12) -> list[str]:
    """Return some of these lines, from the first to the last."""
    lines = list(dict.fromkeys(material))
    return lines[:: max(1, len(lines) // most)][:most] or ["nothing was said"]
