"""Read a Messages request into the messages of a conversation."""

from collections.abc import Iterator
from typing import Any, Final

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.message_features import is_list_of_objects
from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.wires.reading import INSTRUCTIONS, Fields, Reading, Source, picked

_OPTIONS: Final = ("model", "stream", "max_tokens", "chat_template_kwargs")
_REMINDERS: Final = VolatileBlocks(("system-reminder",))
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
    config = fields.get("output_config")
    if fields.get("output_format") or (type(config) is dict and config.get("format")):
        options["response_format"] = {"type": "json_schema"}
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
    """Add each result of a user message with the reminders behind it, and each run of others."""
    for run in _runs(content):
        first, *others = [content[at] for at in run]
        message = _result(first, others) if is_result(first) else None
        messages.append(message or {"role": "user", "content": [first, *others]})
        sources.append(Source(index, index + 1, tuple(run)))


def _runs(content: list[Any]) -> Iterator[list[int]]:
    """Yield the positions of blocks that belong together: a result, or what the user said."""
    run: list[int] = []
    for at, block in enumerate(content):
        is_behind_result = bool(run) and is_result(content[run[0]])
        if run and (is_result(block) or (is_behind_result and not _is_reminder(block))):
            yield run
            run = []
        run.append(at)
    yield run


def _is_reminder(block: Any) -> bool:
    """Return whether a client appended the block to a result; it is nothing that a user said."""
    text = block.get("text") if type(block) is dict and block.get("type") == "text" else None
    return type(text) is str and bool(text) and not _REMINDERS.without_last(text)


def _result(block: Fields, reminders: list[Any]) -> Fields:
    content: Any = block.get("content")
    if content is None:
        content = ""
    if reminders:
        parts = content if type(content) is list else [{"type": "text", "text": content}]
        content = [*parts, *reminders]
    return {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": content}


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
    arguments = serialise(block.get("input")).decode()
    return {
        "id": block.get("id"),
        "type": "function",
        "function": {"name": block.get("name"), "arguments": arguments},
    }
