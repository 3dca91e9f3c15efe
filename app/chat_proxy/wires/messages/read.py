"""Read a Messages request into the messages of a conversation."""

from typing import Any, Final

import orjson

from chat_proxy.chat.message_features import is_list_of_objects
from chat_proxy.wires.reading import INSTRUCTIONS, Fields, Reading, Source, picked

_OPTIONS: Final = ("model", "stream", "max_tokens", "chat_template_kwargs")
_PLAIN_TEXT: Final = frozenset({"type", "text", "cache_control"})


def read(fields: Fields) -> Reading:
    """Return the conversation and the options of a request."""
    given = fields.get("messages")
    if not is_list_of_objects(given):
        return Reading(None, options=_options_of(fields))
    messages: list[Fields] = []
    sources: list[Source] = []
    if fields.get("system"):
        messages.append({"role": "system", "content": fields["system"]})
        sources.append(INSTRUCTIONS)
    for index, message in enumerate(given):
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            messages.append(_assistant(content))
            sources.append(Source(index, index + 1))
        elif role == "user" and type(content) is list and any(map(is_result, content)):
            _add_runs(index, content, messages, sources)
        else:
            messages.append({"role": role, "content": content})
            sources.append(Source(index, index + 1))
    return Reading(messages, sources, _options_of(fields))


def _options_of(fields: Fields) -> Fields:
    options = picked(fields, _OPTIONS)
    tools = fields.get("tools")
    if type(tools) is list and tools:
        options["tools"] = [_chat_tool(tool) for tool in tools]
    choice = fields.get("tool_choice")
    if type(choice) is dict:
        options["tool_choice"] = _chat_choice(choice)
    return options


def _chat_tool(tool: Any) -> Any:
    """Return a tool as chat completions define it; server tools as they are."""
    if type(tool) is not dict or "input_schema" not in tool:
        return tool
    function = {"name": tool.get("name"), "description": tool.get("description", "")}
    return {"type": "function", "function": {**function, "parameters": tool["input_schema"]}}


def _chat_choice(choice: Fields) -> Any:
    kind = choice.get("type")
    if kind == "tool":
        return {"type": "function", "function": {"name": choice.get("name")}}
    return "required" if kind == "any" else kind


def is_result(block: Any) -> bool:
    """Return whether a content block is the result of a call."""
    return type(block) is dict and block.get("type") == "tool_result"


def is_call(block: Any) -> bool:
    """Return whether a content block calls a tool of the client."""
    return type(block) is dict and block.get("type") == "tool_use"


def _add_runs(
    index: int, content: list[Any], messages: list[Fields], sources: list[Source]
) -> None:
    """Add each result of a user message, and each run of other blocks, as a message."""
    run: list[int] = []

    def close() -> None:
        if run:
            messages.append({"role": "user", "content": [content[at] for at in run]})
            sources.append(Source(index, index + 1, tuple(run)))
            run.clear()

    for at, block in enumerate(content):
        if is_result(block):
            close()
            messages.append(_result(block))
            sources.append(Source(index, index + 1, (at,)))
        else:
            run.append(at)
    close()


def _result(block: Fields) -> Fields:
    content = block.get("content")
    return {
        "role": "tool",
        "tool_call_id": block.get("tool_use_id"),
        "content": "" if content is None else content,
    }


def _assistant(content: Any) -> Fields:
    if type(content) is not list:
        return {"role": "assistant", "content": content}
    said = [block for block in content if not is_call(block)]
    message: Fields = {"role": "assistant", "content": content_of(said)}
    calls = [_call(block) for block in content if is_call(block)]
    if calls:
        message["tool_calls"] = calls
    return message


def content_of(said: list[Any]) -> Any:
    """Return the content of what the model said: a text if it is only that, else blocks."""
    if not said:
        return None
    only = said[0]
    is_text = len(said) == 1 and type(only) is dict and only.get("type") == "text"
    if is_text and only.keys() <= _PLAIN_TEXT and type(only.get("text")) is str:
        return only["text"]
    return said


def _call(block: Fields) -> Fields:
    arguments = orjson.dumps(block.get("input"), default=str).decode()
    return {
        "id": block.get("id"),
        "type": "function",
        "function": {"name": block.get("name"), "arguments": arguments},
    }
