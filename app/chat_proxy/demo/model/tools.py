"""The tool calls of the demo model, with arguments from the user's text."""

import hashlib
import json
import re
from collections.abc import Iterator

from chat_proxy.demo.model.messages import Call, as_dict, as_list, as_text, last_of
from chat_proxy.demo.model.request import ChatRequest, Tool

ASKING = r"(?<!not )(?<!n't )(?<!never )\b(?:call|use|run|invoke)\b[^.!?\n]{0,80}?(?<!\w)%s(?!\w)"
QUOTED = re.compile(r"[\"“`]([^\"”`\n]{1,80})[\"”`]")
OBJECT = re.compile(r"\b(?:for|in|on|of|about|at|from|with|to)\s+([^,.;!?\n]{1,60})")
NUMBER = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,6})?(?![\w.]*\w)")
FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
DEEPEST = 6
MOST_VALUES = 200


def forced_calls(request: ChatRequest) -> tuple[Call, ...]:
    """Return the call that `tool_choice` requires, of the requested tool or else the first."""
    if request.tool_choice not in ("required", "named"):
        return ()
    wanted = tools_asked_for(request) or request.tools
    return (make_call(request, wanted[0], 0),)


def asked_calls(request: ChatRequest) -> tuple[Call, ...]:
    """Return a call for each tool that the user requests, if the last message is the user's."""
    if request.messages[-1].role != "user":
        return ()
    wanted = tools_asked_for(request)[: None if request.parallel_calls else 1]
    return tuple(make_call(request, tool, index) for index, tool in enumerate(wanted))


def tools_asked_for(request: ChatRequest) -> list[Tool]:
    """Return the tools that the newest user message requests by name."""
    text = last_of("user", request.messages).text
    return [
        tool
        for tool in request.tools
        if re.search(ASKING % re.escape(tool.name), text, re.IGNORECASE)
    ]


def make_call(request: ChatRequest, tool: Tool, index: int) -> Call:
    """Return a call with plausible arguments, always the same for the same conversation."""
    words = Words(last_of("user", request.messages).text, tool.name)
    example = Example(tool.schema, words).value("", tool.schema)
    arguments = json.dumps(as_dict(example), ensure_ascii=False)
    seed = f"{len(request.messages)} {index} {tool.name} {arguments}"
    digest = hashlib.blake2b(seed.encode(), digest_size=8).hexdigest()
    return Call(f"chatcmpl-tool-{digest}", tool.name, arguments)


class Words:
    """A source of argument values in the user's text: `city=Paris`, "Paris", or `for Paris`."""

    def __init__(self, text: str, tool_name: str) -> None:
        self.text = text
        after = text.partition(tool_name)[2]
        self._texts = iter([*self._quoted(tool_name), *OBJECT.findall(after)[:1]])
        self._numbers = iter(NUMBER.findall(after))

    def _quoted(self, tool_name: str) -> Iterator[str]:
        return (text for text in QUOTED.findall(self.text) if text != tool_name)

    def named(self, name: str) -> str:
        """Return the value that the text assigns to this name."""
        found = re.search(rf"\b{re.escape(name)}\s?[=:]\s?\"?([^\s,;\"]{{1,60}})", self.text)
        return found[1] if name and found else ""

    def contain(self, word: str) -> bool:
        """Return whether the text contains this word."""
        return bool(word and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self.text))

    def next_text(self) -> str:
        """Return the next text that may be an argument."""
        return next(self._texts, "").strip()

    def next_number(self) -> float | None:
        """Return the next number that may be an argument."""
        return next((float(number) for number in self._numbers), None)


class Example:
    """Generates a value that fits a JSON schema, from the user's words where they fit."""

    def __init__(self, root: dict[str, object], words: Words) -> None:
        self._root = root
        self._words = words
        self._left = MOST_VALUES

    def value(self, name: str, raw: object, depth: int = 0) -> object:
        """Return an example for a schema; values beyond the limits become null."""
        self._left -= 1
        if depth > DEEPEST or self._left < 0:
            return None
        schema = self._resolved(as_dict(raw))
        for fixed in (schema.get("const"), self._option(schema), schema.get("default")):
            if isinstance(fixed, str | int | float):
                return fixed
        return self._of_type(name, schema, depth)

    def _of_type(self, name: str, schema: dict[str, object], depth: int) -> object:
        match type_of(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return [self.value(name, schema.get("items"), depth + 1)]
            case "integer":
                return int(self._number(name, schema))
            case "number":
                return self._number(name, schema)
            case "boolean" | "null" as kind:
                return True if kind == "boolean" else None
            case _:
                return self._text(name, schema)

    def _object(self, schema: dict[str, object], depth: int) -> dict[str, object]:
        properties = as_dict(schema.get("properties"))
        required = [as_text(name) for name in as_list(schema.get("required"))]
        names = [name for name in properties if name in required] or list(properties)
        return {name: self.value(name, properties[name], depth + 1) for name in names}

    def _number(self, name: str, schema: dict[str, object]) -> float:
        named = NUMBER.match(self._words.named(name))
        number = float(named[0]) if named else self._words.next_number()
        lowest = schema.get("minimum")
        fallback = lowest if isinstance(lowest, int | float) else 1
        return fallback if number is None else number

    def _text(self, name: str, schema: dict[str, object]) -> str:
        fitting = FORMATS.get(as_text(schema.get("format")))
        return fitting or self._words.named(name) or self._words.next_text() or f"any {name}"

    def _option(self, schema: dict[str, object]) -> object:
        options = as_list(schema.get("enum"))
        mentioned = (option for option in options if self._words.contain(as_text(option)))
        return next(mentioned, options[0] if options else None)

    def _resolved(self, schema: dict[str, object]) -> dict[str, object]:
        """Resolve references and take first alternatives, for a limited number of steps."""
        for _ in range(DEEPEST):
            step = self._referred(as_text(schema.get("$ref"))) or first_alternative(schema)
            if not step:
                break
            schema = step
        return schema

    def _referred(self, reference: str) -> dict[str, object]:
        found: object = self._root if reference.startswith("#/") else {}
        for key in reference.removeprefix("#/").split("/"):
            found = as_dict(found).get(key)
        return as_dict(found)


def first_alternative(schema: dict[str, object]) -> dict[str, object]:
    """Return the first alternative that is not null, or an empty schema."""
    options = (as_dict(o) for key in ("anyOf", "oneOf", "allOf") for o in as_list(schema.get(key)))
    return next((option for option in options if option.get("type") != "null"), {})


def type_of(schema: dict[str, object]) -> str:
    """Return the type of a schema, or the type that its other fields imply."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    return as_text(kind) or ("object" if "properties" in schema else "string")
