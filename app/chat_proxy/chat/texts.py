"""The texts of a message that a chat template renders, by kind and without media."""

import json
import re
from typing import Any, Literal

import orjson

from chat_proxy.chat.media import MAX_DEPTH, is_media, nested_parts

PieceKind = Literal["text", "reasoning", "tool_call", "tool_result", "name", "id"]
Piece = tuple[PieceKind, str]

RESULT_ROLES = ("tool", "function")

_TEXT_TYPES = ("text", "input_text", "output_text")
_REASONING_TYPES = ("thinking", "redacted_thinking", "reasoning")
_KIND_OF_FIELD: dict[str, PieceKind] = {
    "reasoning_content": "reasoning",
    "reasoning": "reasoning",
    "tool_call_id": "id",
    "name": "name",
    "refusal": "text",
}
_BASE64 = re.compile(r"(?:data:[^,]{0,200},)?[A-Za-z0-9+/=_\r\n-]+")
_MAX_BASE64_CHARS = 200
_MAX_JSON_DEPTH = 32


def pieces_of(fields: dict[str, Any]) -> list[Piece]:
    """Return the message's texts: first the content, then the other fields."""
    content = fields.get("content")
    kind: PieceKind = "tool_result" if fields.get("role") in RESULT_ROLES else "text"
    if type(content) is str:
        found: list[Piece] = [(kind, content)]
    else:
        found = []
        if type(content) is list:
            for part in content:
                _add_part(part, kind, found, MAX_DEPTH)
        elif content is not None:
            _add_part(content, kind, found, MAX_DEPTH)
    if len(fields) > 2 or "content" not in fields:
        _add_fields(fields, found)
    return found


def is_reasoning(part: Any) -> bool:
    """Return whether a part of a content list is the model's reasoning."""
    return type(part) is dict and part.get("type") in _REASONING_TYPES


def call_parts(call: Any) -> tuple[str, str]:
    """Return the name and arguments of one call, each empty if it is missing."""
    if type(call) is not dict:
        return "", ""
    name = call.get("name")
    found: list[Piece] = []
    _add_call({**call, "name": None}, found)
    return (name if type(name) is str else ""), (found[0][1] if found else "")


def _add_fields(fields: dict[str, Any], found: list[Piece]) -> None:
    """Add the texts of the other fields, in the client's order."""
    for key, value in fields.items():
        if type(value) is str:
            kind = _KIND_OF_FIELD.get(key)
            # Many clients send the reasoning under both names; templates render it once.
            if kind and (key != "reasoning" or fields.get("reasoning_content") != value):
                found.append((kind, value))
        elif key == "tool_calls" and type(value) is list:
            for call in value:
                if type(call) is dict:
                    _add_call(call.get("function") or call.get("custom"), found)
        elif key == "function_call":
            _add_call(value, found)


def _add_call(call: Any, found: list[Piece]) -> None:
    """Add a call's name and arguments; some clients send the arguments as an object."""
    if type(call) is not dict:
        return
    name = call.get("name")
    if type(name) is str:
        found.append(("tool_call", name))
    arguments = call.get("arguments")
    if arguments is None:
        arguments = call.get("input")
    if type(arguments) is str:
        found.append(("tool_call", arguments))
    elif arguments is not None:
        found.append(("tool_call", _json_text(arguments)))


def _add_part(part: Any, kind: PieceKind, found: list[Piece], depth: int) -> None:
    """Add the texts of one part of a content list."""
    if type(part) is not dict:
        found.append((kind, part if type(part) is str else _json_text(part)))
        return
    part_type = part.get("type")
    text = part.get("text")
    if type(text) is str and (part_type in _TEXT_TYPES or part_type is None):
        found.append((kind, text))
    elif part_type in _REASONING_TYPES:
        _add_nested(part.get(part_type, text), "reasoning", found, depth)
    elif part_type == "refusal" and type(part.get("refusal")) is str:
        found.append((kind, part["refusal"]))
    elif part_type == "tool_use":
        _add_call(part, found)
    elif not is_media(part):
        nested = nested_parts(part)
        _add_nested(nested[1] if nested else _plain_text_in(part), kind, found, depth)


def _plain_text_in(part: dict[str, Any]) -> Any:
    """Return the text of a tool result, text document or text resource, else the part itself."""
    for container, key in (
        (part, "content"),
        (part.get("source"), "data"),
        (part.get("resource"), "text"),
    ):
        if type(container) is dict and type(container.get(key)) is str:
            return container[key]
    return part


def _add_nested(value: Any, kind: PieceKind, found: list[Piece], depth: int) -> None:
    if type(value) is list and depth > 1:
        for part in value:
            _add_part(part, kind, found, depth - 1)
    elif type(value) is str:
        found.append((kind, value))
    elif value is not None:
        found.append((kind, _json_text(value)))


def _json_text(value: Any) -> str:
    """Serialise an unknown value as JSON, without strings that look like base64."""
    value = _without_base64(value, _MAX_JSON_DEPTH)
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _without_base64(value: Any, depth: int) -> Any:
    if type(value) is str:
        return "" if len(value) > _MAX_BASE64_CHARS and _BASE64.fullmatch(value) else value
    if type(value) is dict and depth:
        return {key: _without_base64(item, depth - 1) for key, item in value.items()}
    if type(value) is list and depth:
        return [_without_base64(item, depth - 1) for item in value]
    return None if type(value) in (dict, list) else value
