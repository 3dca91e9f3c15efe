"""Write a conversation as the `input` of a Responses request."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from chat_proxy.wires.reading import INSTRUCTIONS, WHOLE_INPUT, Entry, Fields, Items, Source
from chat_proxy.wires.responses.read import (
    CALLS,
    OUTPUTS,
    kind_of,
    parts_of,
    text_of_only_part,
)

_AS_TEXT = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
_STATUS = "apply_patch_call_output"


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
        elif not is_changed:
            items.extend(range(source.start, source.stop))
        else:
            items.extend(_changed(given[source.start : source.stop], source.start, fields))
    return items, changed


def new_item(fields: Fields) -> Fields:
    """Return a message that the client did not send as an item."""
    role, content = fields["role"], fields.get("content")
    kind = "output_text" if role == "assistant" else "input_text"
    parts = content if type(content) is list else [{"type": kind, "text": content or ""}]
    return {"type": "message", "role": role, "content": [_part(part, kind) for part in parts]}


def _part(part: Any, kind: str) -> Any:
    """Return a content part, which is text in the words of this wire."""
    if type(part) is str:
        return {"type": kind, "text": part}
    if type(part) is dict and part.get("type") == "text":
        return {**part, "type": kind}
    return part


def _changed(items: list[Fields], start: int, fields: Fields) -> Iterator[int | Fields]:
    """Yield the items of one message with its changes; what has no place for them is kept."""
    content, calls = fields.get("content"), iter(fields.get("tool_calls") or ())
    parts = _parts_for(items, content)
    for index, item in enumerate(items, start):
        kind = kind_of(item)
        if kind in OUTPUTS:
            changed = _with_output(item, content)
        elif kind in CALLS:
            changed = _with_call(item, next(calls, None))
        elif kind == "reasoning":
            changed = item
        elif kind == "message":
            changed = _with_content(item, content, parts)
        else:
            changed = item
            next(parts, None)
        yield index if changed == item else changed


def _parts_for(items: list[Fields], content: Any) -> Iterator[Any]:
    """Return the parts of a changed content, if there are as many as before."""
    if type(content) is not list:
        return iter(())
    said = [item for item in items if kind_of(item) not in CALLS and kind_of(item) != "reasoning"]
    before = sum(len(parts_of(item)) for item in said)
    return iter(content) if before == len(content) or len(said) == 1 else iter(())


def _with_content(item: Fields, content: Any, parts: Iterator[Any]) -> Fields:
    kind = "output_text" if item.get("role") == "assistant" else "input_text"
    if type(content) is str:
        given = item.get("content")
        if type(given) is str:
            return {**item, "content": content}
        if type(given) is not list or text_of_only_part(given) is None:
            return item
        return {**item, "content": [{**given[0], "text": content}]}
    if type(content) is not list:
        return item
    given = item.get("content")
    if type(given) is list and len(given) != len(content) and kind_of(item) == "message":
        taken = list(parts)
    else:
        taken = [part for part, _ in zip(parts, parts_of(item), strict=False)]
    return {**item, "content": [_part(part, kind) for part in taken]} if taken else item


def _with_output(item: Fields, content: Any) -> Fields:
    """Return a result with another content, in the form that its type has."""
    kind = kind_of(item)
    if kind == "shell_call_output":
        return {**item, "output": _shell_output(item.get("output"), content)}
    if kind not in _AS_TEXT and kind != _STATUS:
        return item
    if type(content) is list:
        return {**item, "output": [_part(part, "input_text") for part in content]}
    if type(content) is dict:
        return {**item, "output": [_part(content, "input_text")]}
    return {**item, "output": content}


def _shell_output(given: Any, content: Any) -> Any:
    """Return one command's output with the changed text, ended as the last one was."""
    parts = content if type(content) is list else [content]
    texts = [part if type(part) is str else part.get("text") for part in parts]
    if not all(type(text) is str for text in texts):
        return content
    last = given[-1] if type(given) is list and given and type(given[-1]) is dict else {}
    outcome = last.get("outcome", {"type": "exit", "exit_code": 0})
    return [{"stdout": "\n".join(texts), "stderr": "", "outcome": outcome}]


def _with_call(item: Fields, call: Any) -> Fields:
    """Return a call with other arguments, if its type has text for them."""
    if type(call) is not dict:
        return item
    kind = kind_of(item)
    if kind == "custom_tool_call":
        return {**item, "input": call["custom"]["input"]}
    arguments = call["function"]["arguments"]
    if type(item.get(CALLS[kind])) is str:
        return {**item, CALLS[kind]: arguments}
    try:
        parsed = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return item
    return {**item, CALLS[kind]: parsed} if type(parsed) is dict else item
