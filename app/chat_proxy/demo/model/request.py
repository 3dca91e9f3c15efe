"""Parsing and validating chat requests as vLLM does."""

from dataclasses import dataclass

import orjson

from chat_proxy.demo.model.messages import Message, as_dict, as_text, leaves, read_message
from chat_proxy.demo.model.refusals import bad_request, invalid, invalid_json, not_found

MOST_CHOICES = 4
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Tool:
    """A tool that the client offers."""

    name: str
    schema: dict[str, object]


@dataclass(frozen=True)
class ChatRequest:
    """A valid chat request; if `tool_choice` names a tool, `tools` has only that one."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    tool_words: tuple[str, ...]
    tool_choice: str
    parallel_calls: bool
    choices: int
    max_tokens: int | None
    stream: bool
    include_usage: bool


def read_request(fields: dict[str, object], model: str, window: int) -> ChatRequest:
    """Read a request, or raise DemoError as vLLM would refuse it."""
    messages = read_messages(fields)
    tools = read_tools(fields)
    tool_choice = read_tool_choice(fields, tools)
    stream = fields.get("stream") is True
    if fields.get("stream_options") is not None and not stream:
        raise bad_request(
            "Stream options can only be defined when `stream=True`.", "stream_options"
        )
    max_tokens = read_max_tokens(fields, window)
    choices = read_choices(fields)
    refuse_other_models(fields.get("model"), model)
    if not messages:
        raise bad_request(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    return ChatRequest(
        messages=messages,
        tools=chosen_tools(tools, tool_choice),
        tool_words=tuple(leaves(fields.get("tools"))),
        tool_choice=tool_choice if isinstance(tool_choice, str) else "named",
        parallel_calls=fields.get("parallel_tool_calls") is not False,
        choices=choices,
        max_tokens=max_tokens,
        stream=stream,
        include_usage=as_dict(fields.get("stream_options")).get("include_usage") is True,
    )


def read_json(body: bytes) -> dict[str, object]:
    """Return the JSON object of the body."""
    if not body:
        raise invalid("missing", "body", "Field required", None)
    try:
        fields = orjson.loads(body.removeprefix(BYTE_ORDER_MARK))
    except orjson.JSONDecodeError as error:
        raise invalid_json(error.msg, error.pos) from error
    if not isinstance(fields, dict):
        complaint = "Input should be a valid dictionary or object to extract fields from"
        raise invalid("model_attributes_type", "body", complaint, fields)
    return fields


def read_messages(fields: dict[str, object]) -> tuple[Message, ...]:
    """Return the messages, each of which must have a role."""
    if "messages" not in fields:
        raise invalid("missing", "body.messages", "Field required", fields)
    raw = fields["messages"]
    if not isinstance(raw, list):
        raise invalid("list_type", "body.messages", "Input should be a valid list", raw)
    for index, message in enumerate(raw):
        if not as_text(as_dict(message).get("role")):
            raise invalid("missing", f"body.messages.{index}.role", "Field required", message)
    return tuple(read_message(message) for message in raw)


def read_tools(fields: dict[str, object]) -> tuple[Tool, ...]:
    """Return the tools that the client offers."""
    raw = fields.get("tools")
    if raw is None:
        return ()
    if raw == []:
        complaint = (
            "`tools` must not be an empty array. "
            "Either provide at least one tool or omit the field entirely."
        )
        raise bad_request(complaint, "tools")
    if not isinstance(raw, list):
        raise invalid("list_type", "body.tools", "Input should be a valid list", raw)
    return tuple(read_tool(index, tool) for index, tool in enumerate(raw))


def read_tool(index: int, raw: object) -> Tool:
    """Return one tool, which must be a function with a name."""
    kind = as_dict(raw).get("type")
    if kind != "function":
        place = f"body.tools.{index}.type"
        raise invalid("literal_error", place, "Input should be 'function'", kind)
    function = as_dict(as_dict(raw).get("function"))
    if not as_text(function.get("name")):
        raise invalid("missing", f"body.tools.{index}.function.name", "Field required", raw)
    return Tool(as_text(function["name"]), as_dict(function.get("parameters")))


def read_tool_choice(fields: dict[str, object], tools: tuple[Tool, ...]) -> str | Tool:
    """Return `none`, `auto` or `required`, or the named tool."""
    raw = fields.get("tool_choice")
    if raw is None:
        return "auto"
    if not tools:
        raise bad_request("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if raw in ("none", "auto", "required"):
        return as_text(raw)
    named = as_text(as_dict(as_dict(raw).get("function")).get("name"))
    if not named:
        complaint = (
            "Invalid value for `tool_choice`! "
            'Only named tools, "none", "auto" or "required" are supported.'
        )
        raise bad_request(complaint, "tool_choice")
    for tool in tools:
        if tool.name == named:
            return tool
    complaint = "The tool specified in `tool_choice` does not match any of the specified `tools`."
    raise bad_request(complaint, "tool_choice")


def chosen_tools(tools: tuple[Tool, ...], choice: str | Tool) -> tuple[Tool, ...]:
    """Return the tools that may be called."""
    if isinstance(choice, Tool):
        return (choice,)
    return () if choice == "none" else tools


def read_max_tokens(fields: dict[str, object], window: int) -> int | None:
    """Return the maximum length of the answer; the newer of the two fields takes precedence."""
    for name in ("max_completion_tokens", "max_tokens"):
        asked = read_integer(fields, name)
        if asked is None:
            continue
        if asked > window:
            complaint = (
                f"{name}={asked} cannot be greater than max_model_len={window}. "
                "Please request fewer output tokens."
            )
            raise bad_request(complaint, name, asked)
        return asked
    return None


def read_choices(fields: dict[str, object]) -> int:
    """Return the number of choices (`n`)."""
    choices = read_integer(fields, "n")
    if choices is None:
        return 1
    if choices < 1:
        complaint = f"n must be at least 1, got {choices}."
        raise bad_request(complaint, "n", choices)
    if choices > MOST_CHOICES:
        complaint = f"n must be at most {MOST_CHOICES}, got {choices}."
        raise bad_request(complaint, "n", choices)
    return choices


def read_integer(fields: dict[str, object], name: str) -> int | None:
    """Return an integer, or None if the field is missing or null."""
    value = fields.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise invalid("int_type", f"body.{name}", "Input should be a valid integer", value)


def refuse_other_models(asked: object, model: str) -> None:
    """Raise DemoError for another model; a missing name means this model."""
    if asked not in (None, model):
        name = asked if isinstance(asked, str) else "?"
        complaint = f"The model `{name}` does not exist. Valid aliases: {model}."
        raise not_found(complaint, "model")
