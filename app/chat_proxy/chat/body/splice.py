"""Replace the messages of a body and keep every other byte."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, cast

import orjson

from chat_proxy.chat.body.json_writer import serialise

MESSAGES: Final = "messages"
_SEPARATORS = re.compile(r"[ \t\r\n,:]*+")

# Numbers are only skipped here: as strings they need no conversion and cannot be too long.
_reader = json.JSONDecoder(parse_int=str, parse_float=str)


@dataclass(frozen=True, slots=True)
class _Array:
    """The offsets of each message, and of all of them together: `start:stop`."""

    start: int
    stop: int
    items: list[slice]


def splice(
    body: bytes,
    messages: Sequence[int | dict[str, Any]],
    fields: dict[str, Any] | None = None,
    key: str = MESSAGES,
) -> bytes:
    """Return the body with other messages; an index means the client's message, byte for byte.

    `fields` is the parsed body; passing it avoids parsing the body again. `key` is the name of the
    list.
    """
    array = _find(body, fields, key)
    if list(messages) == list(range(len(array.items))):
        return body
    inside = b",".join(_serialised(body, array.items, messages))
    return b"".join((body[: array.start], inside, body[array.stop :]))


def serialise_messages(
    body: bytes,
    messages: Sequence[int | dict[str, Any]],
    fields: dict[str, Any] | None = None,
    key: str = MESSAGES,
) -> bytes:
    """Return the messages as a JSON array, for a body that the proxy writes itself."""
    if not any(isinstance(message, int) for message in messages):
        return b"[" + b",".join(map(serialise, cast("list[dict[str, Any]]", messages))) + b"]"
    array = _find(body, fields, key)
    return b"[" + b",".join(_serialised(body, array.items, messages)) + b"]"


def _serialised(
    body: bytes, items: list[slice], messages: Sequence[int | dict[str, Any]]
) -> Iterator[bytes]:
    """Yield new messages, and runs of the client's messages with the bytes between them."""
    run: range | None = None
    for message in messages:
        if isinstance(message, int) and run and message == run.stop:
            run = range(run.start, message + 1)
            continue
        if run:
            yield body[items[run[0]].start : items[run[-1]].stop]
        if isinstance(message, int):
            run = range(message, message + 1)
        else:
            run = None
            yield serialise(message)
    if run:
        yield body[items[run[0]].start : items[run[-1]].stop]


def _find(body: bytes, fields: dict[str, Any] | None, key: str) -> _Array:
    found = _find_by_serialising(body, fields, key) if fields else None
    return found or _find_by_parsing(body, key)


def _find_by_serialising(body: bytes, fields: dict[str, Any], key: str) -> _Array | None:
    """Find the messages by their serialised lengths if the client writes JSON as orjson does.

    Nearly all clients do.
    """
    messages = fields.get(key)
    if type(messages) is not list or not messages:
        return None
    names = list(fields)
    index = names.index(key)
    try:
        before = orjson.dumps({name: fields[name] for name in names[:index]})
        after = orjson.dumps({name: fields[name] for name in names[index + 1 :]})
        head = before[:-1] + (b"," if index else b"") + b'"%b":[' % key.encode()
        tail = b"]" + (b"," if len(after) > 2 else b"") + after[1:]
        items = _same_items(body, messages, len(head)) if body.startswith(head) else []
    except TypeError:
        return None
    if not items or body[items[-1].stop :] != tail:
        return None
    return _Array(items[0].start, items[-1].stop, items)


def _same_items(body: bytes, messages: list[Any], start: int) -> list[slice]:
    """Return the offsets of the messages if the body, from `start` on, has them as orjson does."""
    items = []
    for message in messages:
        text = orjson.dumps(message)
        end = start + len(text)
        if not body.startswith(text, start) or body[end : end + 1] not in (b",", b"]"):
            return []
        items.append(slice(start, end))
        start = end + 1
    return items


def _find_by_parsing(body: bytes, wanted: str) -> _Array:
    """Find the messages in any JSON object; the last array counts if the key is repeated."""
    text = body.decode()
    bounds: list[int] = []
    position = _skip_separators(text, text.index("{") + 1)
    while text[position] != "}":
        key, position = _reader.raw_decode(text, position)
        position = _skip_separators(text, position)
        if key == wanted:
            bounds, position = _bounds_of_items(text, position)
        else:
            _, position = _reader.raw_decode(text, position)
        position = _skip_separators(text, position)
    if not bounds:
        raise ValueError("The body has no array of messages.")
    start, *edges, stop = bounds if text.isascii() else _in_bytes(text, bounds)
    items = [slice(*pair) for pair in zip(edges[::2], edges[1::2], strict=True)]
    return _Array(edges[0], edges[-1], items) if edges else _Array(start, stop, [])


def _bounds_of_items(text: str, position: int) -> tuple[list[int], int]:
    """Return the array's inner start, each item's start and end, and the inner end."""
    if text[position] != "[":
        return [], _reader.raw_decode(text, position)[1]
    bounds = [position + 1]
    position = _skip_separators(text, position + 1)
    while text[position] != "]":
        bounds.append(position)
        _, end = _reader.raw_decode(text, position)
        bounds.append(end)
        position = _skip_separators(text, end)
    return [*bounds, position], position + 1


def _skip_separators(text: str, position: int) -> int:
    """Return the position after blanks, commas and colons."""
    match = _SEPARATORS.match(text, position)
    return match.end() if match else position


def _in_bytes(text: str, positions: list[int]) -> list[int]:
    """Convert ascending character positions to byte positions in UTF-8."""
    spans = pairwise([0, *positions])
    return list(accumulate(len(text[start:end].encode()) for start, end in spans))
