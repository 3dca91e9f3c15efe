"""Write a conversation as the `input` of a Responses request."""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

import orjson

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.wires.reading import INSTRUCTIONS, WHOLE_INPUT, Entry, Fields, Items, Source
from chat_proxy.wires.responses.outputs import OUTPUTS, part_of, with_output
from chat_proxy.wires.responses.read import CALLS, kind_of, parts_of, text_of_only_part


def write(given: Any, sources: list[Source], entries: Iterable[Entry]) -> tuple[Items, Fields]:
    """Return the items of the conversation, and the fields that change beside them."""
    items: Items = []
    changed: Fields = {}
    for origin, fields, is_changed in entries:
        source = None if origin is None else sources[origin]
        if source is None:
            items.append(new_item(fields))
        elif source is INSTRUCTIONS:
            if is_changed:
                changed["instructions"] = fields.get("content")
        elif source is WHOLE_INPUT:
            items.append(new_item(fields))
        elif not is_changed or _is_sealed(given[source.start : source.stop]):
            items.extend(range(source.start, source.stop))
        else:
            items.extend(_changed(given[source.start : source.stop], source.start, fields))
    return items, changed


def _is_sealed(items: list[Fields]) -> bool:
    """Return whether a part of the history stands for others, and must stay as it is."""
    return kind_of(items[-1]) == "compaction"


def new_item(fields: Fields) -> Fields:
    """Return a message that the client did not send as an item.

    Its content is a plain text: parts of the model's own words would need ids that it has not.
    """
    role, content = fields["role"], fields.get("content")
    if type(content) is list:
        content = _parts(content, "output_text" if role == "assistant" else "input_text")
    return {"type": "message", "role": role, "content": content or ""}


def _changed(items: list[Fields], start: int, fields: Fields) -> Iterator[int | Fields]:
    """Yield the items of one message with its changes; what has no place for them is kept."""
    content, calls = fields.get("content"), iter(fields.get("tool_calls") or ())
    shares = iter(_shares(items, content))
    for index, item in enumerate(items, start):
        kind = kind_of(item)
        changed = item
        if kind in OUTPUTS:
            changed = with_output(item, content)
        elif kind in CALLS:
            changed = _with_call(item, next(calls, None))
        elif kind == "message":
            changed = _with_content(item, next(shares))
        elif kind != "reasoning":
            next(shares)
        yield index if changed == item else changed


def _shares(items: list[Fields], content: Any) -> Iterator[Any]:
    """Yield what each item gets of a changed content; what it has if that cannot be told."""
    said = [item for item in items if kind_of(item) not in CALLS and kind_of(item) != "reasoning"]
    sizes = [len(parts_of(item)) for item in said]
    if len(said) == 1:
        yield content
    elif type(content) is list and sum(sizes) == len(content):
        ends = list(accumulate(sizes))
        yield from (content[end - size : end] for end, size in zip(ends, sizes, strict=True))
    else:
        yield from map(parts_of, said)


def _with_content(item: Fields, content: Any) -> Fields:
    given: Any = item.get("content")
    if type(content) is list:
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        if type(given) is str:
            return item if content == [given] else {**item, "content": _parts(content, kind)}
        return {**item, "content": _parts(content, kind)} if content else item
    if type(content) is not str:
        return item
    if type(given) is str:
        return {**item, "content": content}
    if text_of_only_part(given) is None:
        return item
    return {**item, "content": [{**given[0], "text": content}]}


def _parts(content: list[Any], kind: str) -> list[Any]:
    return [part_of(part, kind) for part in content]


def _with_call(item: Fields, call: Any) -> Fields:
    """Return a call with other arguments, if its type has text for them."""
    if type(call) is not dict:
        return item
    kind = kind_of(item)
    if kind == "custom_tool_call":
        return {**item, "input": call["custom"]["input"]}
    given, arguments = item.get(CALLS[kind]), call["function"]["arguments"]
    if type(given) is str:
        return {**item, CALLS[kind]: arguments}
    if arguments == serialise(given).decode():
        return item
    try:
        parsed = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return item
    return {**item, CALLS[kind]: parsed} if type(parsed) is dict else item
