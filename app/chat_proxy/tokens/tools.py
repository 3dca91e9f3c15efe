"""The tokens of tool definitions, in the form in which the server renders them."""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from chat_proxy.tokens.overheads import CountingRules, ToolsStyle
from chat_proxy.tokens.scripts import TOKENS_MASK
from chat_proxy.tokens.token_counter import TokenCounter

_PREAMBLE_TOKENS: Final = {"json": 120, "indented": 60, "bare": 2}
"""Tokens of the sentences around the definitions."""
_TYPESCRIPT_FRAME_TOKENS: Final = 9
_MAX_DEPTH: Final = 32
_PLAIN_TYPES: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


class Definitions(NamedTuple):
    """What a request defines besides its messages, as the client sent it."""

    tools: object = None
    tool_choice: object = None
    response_format: object = None
    are_led: bool = False
    """Whether there is a system or developer message."""


NOTHING_DEFINED: Final = Definitions()


def definitions_profile(
    definitions: Definitions, counter: TokenCounter, rules: CountingRules
) -> tuple[int, int]:
    """Return the profile of tools and schema, and the tokens of the frame around the reply."""
    frame = rules.reply_tokens
    if not definitions.tools and definitions.response_format is None:
        return 0, frame
    profile = tools_profile(definitions.tools, counter, rules.tools_style)
    if profile and rules.tools_style == "typescript":
        profile += tool_choice_tokens(definitions.tool_choice, counter)
        if definitions.are_led:
            frame -= 4  # the definitions are then part of that message
    if definitions.response_format is not None and rules.renders_schema:
        profile += schema_profile(definitions.response_format, counter)
    return profile, frame


def tools_tokens(tools: object, counter: TokenCounter, style: ToolsStyle) -> int:
    """Count the definitions, which may be any JSON value; the same content is counted once."""
    return tools_profile(tools, counter, style) & TOKENS_MASK


def tools_profile(tools: object, counter: TokenCounter, style: ToolsStyle) -> int:
    """Return the same by script class, as a profile."""
    if not tools:
        return 0
    packed = _packed(tools)
    key = (style, hash(packed), len(packed))
    return counter.remembered(key, lambda: _profile(tools, counter, style))


def tool_choice_tokens(choice: object, counter: TokenCounter) -> int:
    """Count what a `tool_choice` adds to OpenAI's prompt; open templates do not render it."""
    if choice == "none":
        return 1
    name = _text(_dict(_dict(choice).get("function")).get("name"))
    return 7 + counter.count(name) if name else 0


def schema_profile(response_format: object, counter: TokenCounter) -> int:
    """Return the profile of a `response_format`'s JSON schema; a bare type costs nothing."""
    schema = _dict(response_format).get("json_schema")
    return counter.profile(as_json(schema)) if schema else 0


def as_json(value: object) -> str:
    """Serialise the value as chat templates do: spaces after commas, no ASCII escapes."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""


def as_indented(tools: object) -> str:
    """Serialise each definition as the templates of Llama do: in lines, by four blanks."""
    listed = tools if isinstance(tools, list) else [tools]
    try:
        return "\n\n".join(json.dumps(tool, ensure_ascii=False, indent=4) for tool in listed)
    except (TypeError, ValueError, RecursionError):
        return ""


def as_typescript(tools: object) -> str:
    """Render the definitions in the TypeScript form that OpenAI's models are trained on."""
    lines = ["namespace functions {", ""]
    for tool in tools if isinstance(tools, list) else [tools]:
        lines.extend(_function(_dict(tool)))
    return "\n".join([*lines, "} // namespace functions"])


def _profile(tools: object, counter: TokenCounter, style: ToolsStyle) -> int:
    if style != "typescript":
        text = as_indented(tools) if style == "indented" else as_json(tools)
        return counter.profile(text) + _PREAMBLE_TOKENS[style]
    return counter.profile(as_typescript(tools)) + _TYPESCRIPT_FRAME_TOKENS


def _packed(value: object) -> bytes | str:
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates, large numbers, nesting
        return as_json(value)


def _function(tool: dict[str, Any]) -> Iterator[str]:
    function = _dict(tool.get("function")) or tool
    if description := _text(function.get("description")):
        yield f"// {description}"
    parameters = _dict(function.get("parameters"))
    name = _text(function.get("name"))
    if _dict(parameters.get("properties")):
        yield f"type {name} = (_: {{"
        yield _members(parameters, 0, _MAX_DEPTH)
        yield "}) => any;"
    else:
        yield f"type {name} = () => any;"
    yield ""


def _members(schema: dict[str, Any], indent: int, depth: int) -> str:
    required = schema.get("required")
    always = [key for key in required if isinstance(key, str)] if isinstance(required, list) else []
    lines = []
    for key, value in _dict(schema.get("properties")).items():
        member = _dict(value)
        if description := _text(member.get("description")):
            lines.append(f"// {description}")
        lines.append(f"{key}{'' if key in always else '?'}: {_type(member, indent, depth)},")
    return "\n".join(" " * indent + line for line in lines)


def _type(schema: dict[str, Any], indent: int, depth: int) -> str:
    if depth == 0:
        return "any"
    type_name = schema.get("type")
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(alternatives, list):
        return _union(_type(_dict(one), indent, depth - 1) for one in alternatives)
    if isinstance(schema.get("enum"), list):
        return _union(as_json(item) for item in schema["enum"])
    if isinstance(type_name, list):
        return _union(_type({**schema, "type": one}, indent, depth - 1) for one in type_name)
    return _single_type(type_name, schema, indent, depth)


def _single_type(type_name: object, schema: dict[str, Any], indent: int, depth: int) -> str:
    if type_name == "array":
        return f"{_type(_dict(schema.get('items')), indent, depth - 1)}[]"
    if type_name == "object":
        return f"{{\n{_members(schema, indent + 2, depth - 1)}\n}}"
    return _PLAIN_TYPES.get(type_name, "any") if isinstance(type_name, str) else "any"


def _union(types: Iterator[str]) -> str:
    return " | ".join(types)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
