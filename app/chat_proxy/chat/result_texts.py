"""The texts of a tool result and their paths, in its content or in nested parts."""

from typing import Any

from chat_proxy.chat.media import MAX_DEPTH, Path, is_media, nested_parts
from chat_proxy.chat.message import Message

PlacedText = tuple[Path, str]

_TEXT_TYPES = ("text", "input_text", "output_text", None)


def texts_in(message: Message) -> list[PlacedText]:
    """Return every text of the content with its path, in order; media have no text."""
    content = message.content
    if type(content) is str:
        return [(("content",), content)]
    found: list[PlacedText] = []
    _add_texts(content, ("content",), found, MAX_DEPTH)
    return found


def _add_texts(value: Any, path: Path, found: list[PlacedText], depth: int) -> None:
    if type(value) is str:
        found.append((path, value))
    elif type(value) is list and depth:
        for index, part in enumerate(value):
            _add_texts(part, (*path, index), found, depth - 1)
    elif type(value) is dict:
        _add_part(value, path, found, depth)


def _add_part(part: dict[str, Any], path: Path, found: list[PlacedText], depth: int) -> None:
    text = part.get("text")
    if type(text) is str and part.get("type") in _TEXT_TYPES:
        found.append(((*path, "text"), text))
    elif not is_media(part):
        nested = nested_parts(part)
        if nested:
            _add_texts(nested[1], path + nested[0], found, depth)
        else:
            _add_plain_text(part, path, found)


def _add_plain_text(part: dict[str, Any], path: Path, found: list[PlacedText]) -> None:
    """Add the text of a nested tool result, text document or text resource."""
    for keys in (("content",), ("source", "data"), ("resource", "text")):
        value: Any = part
        for key in keys:
            value = value.get(key) if type(value) is dict else None
        if type(value) is str:
            found.append(((*path, *keys), value))
            return


def with_plain_parts_joined(message: Message) -> Message:
    """Return a message whose plain text parts are joined into one, at the position of the first.

    Parts with further fields, such as cache marks, are kept, and so is the order of the others.
    """
    content = message.content
    if type(content) is not list:
        return message
    plain = [index for index, part in enumerate(content) if _is_plain(part)]
    if len(plain) < 2:
        return message
    texts = [_plain_text(content[index]) for index in plain]
    parts = [part for part in content if not _is_plain(part)]
    first = content[plain[0]]
    joined = "\n".join(texts)
    parts.insert(plain[0], joined if type(first) is str else {**first, "text": joined})
    return message.with_content(parts)


def _is_plain(part: Any) -> bool:
    if type(part) is not dict:
        return type(part) is str
    is_text = type(part.get("text")) is str and part.get("type") in _TEXT_TYPES
    return is_text and part.keys() <= {"type", "text"}


def _plain_text(part: Any) -> str:
    text: str = part if type(part) is str else part["text"]
    return text
