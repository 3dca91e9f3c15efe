"""Exchange a body's messages and leave every other byte where it is."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import orjson

_BETWEEN = re.compile(r"[ \t\r\n,:]*+")

# Numbers are only passed over here: as text they cost nothing and cannot be too long.
_reader = json.JSONDecoder(parse_int=str, parse_float=str)


@dataclass(frozen=True, slots=True)
class _Array:
    """Where each message stands, and all of them: `start:stop`."""

    start: int
    stop: int
    items: list[slice]


def splice(
    body: bytes, messages: Sequence[int | dict[str, Any]], fields: dict[str, Any] | None = None
) -> bytes:
    """Return the body with other messages; a number stands for the client's own, byte for byte.

    `fields`, the body as it was parsed, spares reading it again.
    """
    array = _find(body, fields)
    if list(messages) == list(range(len(array.items))):
        return body
    inside = b",".join(_written(body, array.items, messages))
    return b"".join((body[: array.start], inside, body[array.stop :]))


def written_messages(
    body: bytes, messages: Sequence[int | dict[str, Any]], fields: dict[str, Any] | None = None
) -> bytes:
    """Return such messages as an array alone, for a body of our own."""
    array = _find(body, fields)
    return b"[" + b",".join(_written(body, array.items, messages)) + b"]"


def message_slices(body: bytes, fields: dict[str, Any] | None = None) -> list[slice]:
    """Return where each message stands in the body."""
    return _find(body, fields).items


def _written(
    body: bytes, items: list[slice], messages: Sequence[int | dict[str, Any]]
) -> Iterator[bytes]:
    """Yield new messages, and runs of the client's own with all that stands between them."""
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
            yield dumped(message)
    if run:
        yield body[items[run[0]].start : items[run[-1]].stop]


def dumped(message: dict[str, Any]) -> bytes:
    """Write a message; what orjson refuses, lone surrogates and long integers, in plain ASCII."""
    try:
        return orjson.dumps(message)
    except TypeError:
        return json.dumps(message, separators=(",", ":")).encode("ascii")


def _find(body: bytes, fields: dict[str, Any] | None) -> _Array:
    return (_by_writing(body, fields) if fields else None) or _by_reading(body)


def _by_writing(body: bytes, fields: dict[str, Any]) -> _Array | None:
    """Find the messages by lengths alone if the client writes JSON as we do; nearly all do."""
    messages = fields.get("messages")
    if type(messages) is not list or not messages:
        return None
    names = list(fields)
    place = names.index("messages")
    try:
        before = orjson.dumps({name: fields[name] for name in names[:place]})
        after = orjson.dumps({name: fields[name] for name in names[place + 1 :]})
        head = before[:-1] + (b"," if place else b"") + b'"messages":['
        tail = b"]" + (b"," if len(after) > 2 else b"") + after[1:]
        items = _same_items(body, messages, len(head)) if body.startswith(head) else []
    except TypeError:
        return None
    if not items or body[items[-1].stop :] != tail:
        return None
    return _Array(items[0].start, items[-1].stop, items)


def _same_items(body: bytes, messages: list[Any], start: int) -> list[slice]:
    """Return where the messages stand if from `start` on they stand as we write them."""
    items = []
    for message in messages:
        text = orjson.dumps(message)
        end = start + len(text)
        if not body.startswith(text, start) or body[end : end + 1] not in (b",", b"]"):
            return []
        items.append(slice(start, end))
        start = end + 1
    return items


def _by_reading(body: bytes) -> _Array:
    """Find the messages in any JSON object; of two arrays of that name the last one counts."""
    text = body.decode()
    bounds: list[int] = []
    position = _past(text, text.index("{") + 1)
    while text[position] != "}":
        key, position = _reader.raw_decode(text, position)
        position = _past(text, position)
        if key == "messages":
            bounds, position = _bounds_of_items(text, position)
        else:
            _, position = _reader.raw_decode(text, position)
        position = _past(text, position)
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
    position = _past(text, position + 1)
    while text[position] != "]":
        bounds.append(position)
        _, end = _reader.raw_decode(text, position)
        bounds.append(end)
        position = _past(text, end)
    return [*bounds, position], position + 1


def _past(text: str, position: int) -> int:
    """Return the position behind blanks, commas and colons."""
    match = _BETWEEN.match(text, position)
    return match.end() if match else position


def _in_bytes(text: str, positions: list[int]) -> list[int]:
    """Turn rising positions in the text into positions in its UTF-8."""
    spans = pairwise([0, *positions])
    return list(accumulate(len(text[start:end].encode()) for start, end in spans))
