"""Read the `input` of a Responses request into the messages of a conversation."""

from typing import Any, Final

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.message_features import is_list_of_objects
from chat_proxy.wires.reading import INSTRUCTIONS, WHOLE_INPUT, Fields, Reading, Source, picked
from chat_proxy.wires.responses.outputs import OUTPUTS, content_of_output

CALLS: Final = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
}
"""The items that call a tool of the client, each with the field of its arguments."""
STORED: Final = ("previous_response_id", "conversation")
"""The fields that name a history which is stored at the upstream."""
_OPTIONS: Final = ("model", "stream", "tool_choice", "user", "prompt_cache_key", "truncation")
_SPEAKERS: Final = ("user", "system", "developer")
_LEADING: Final = ("system", "developer")


def read(fields: Fields) -> Reading:
    """Return the conversation and the options of a request."""
    messages, sources = _leading_instructions(fields)
    given = fields.get("input")
    if type(given) is str:
        messages.append({"role": "user", "content": given})
        sources.append(WHOLE_INPUT)
    elif is_list_of_objects(given):
        walk = _Walk(given, messages, sources)
        for index, item in enumerate(given):
            walk.add(index, item)
        walk.close()
    else:
        return Reading(None, options=_options_of(fields))
    is_elsewhere = any(fields.get(name) for name in STORED) or (
        type(given) is list and any(item.get("type") == "item_reference" for item in given)
    )
    return Reading(messages, sources, _options_of(fields), is_elsewhere)


def _leading_instructions(fields: Fields) -> tuple[list[Fields], list[Source]]:
    instructions = fields.get("instructions")
    if type(instructions) is not str or not instructions:
        return [], []
    return [{"role": "system", "content": instructions}], [INSTRUCTIONS]


def _options_of(fields: Fields) -> Fields:
    options = picked(fields, _OPTIONS)
    if "max_output_tokens" in fields:
        options["max_completion_tokens"] = fields["max_output_tokens"]
    tools = fields.get("tools")
    if type(tools) is list and tools:
        options["tools"] = [chat_tool for tool in tools for chat_tool in _chat_tools(tool)]
    text = fields.get("text")
    form = text.get("format") if type(text) is dict else None
    if type(form) is dict and form.get("type") == "json_schema":
        options["response_format"] = {"type": "json_schema", "json_schema": form}
    elif type(form) is dict and form.get("type") == "json_object":
        options["response_format"] = form
    return options


def _chat_tools(tool: Any) -> list[Any]:
    """Return a tool as chat completions define it; the tools of a group one by one."""
    if type(tool) is not dict:
        return [tool]
    nested = tool.get("tools")
    if tool.get("type") == "namespace" and type(nested) is list:
        return [chat_tool for each in nested for chat_tool in _chat_tools(each)]
    if tool.get("type") != "function" or "function" in tool:
        return [tool]
    function = {key: tool[key] for key in ("name", "description", "parameters") if key in tool}
    return [{"type": "function", "function": function}]


class _Walk:
    """Make messages of items: what the model said or called up to a result is one message."""

    def __init__(self, given: list[Fields], messages: list[Fields], sources: list[Source]) -> None:
        self._given = given
        self._messages = messages
        self._sources = sources
        self._turn: list[Fields] = []
        self._start = 0

    def add(self, index: int, item: Fields) -> None:
        """Add the next item."""
        kind = kind_of(item)
        if kind in OUTPUTS or (kind == "message" and item.get("role") in _SPEAKERS):
            self.close()
            self._append(_result(item) if kind in OUTPUTS else _spoken(item), index, index + 1)
        elif kind == "compaction":
            self.close()
            self._seal(index + 1)
        else:
            if _begins(kind) and any(map(_is_said_or_called, self._turn)):
                self.close()
            if not self._turn:
                self._start = index
            self._turn.append(item)

    def close(self) -> None:
        """End the model's turn, if one is open."""
        if self._turn:
            self._append(assistant_of(self._turn), self._start, self._start + len(self._turn))
            self._turn = []

    def _seal(self, stop: int) -> None:
        """Make the history up to a compaction item one message that is never folded.

        Only its server can read the item, and knows which of the items before it still count.
        """
        first = next(
            (at for at, message in enumerate(self._messages) if message["role"] not in _LEADING),
            len(self._messages),
        )
        start = self._sources[first].start if first < len(self._sources) else stop - 1
        del self._messages[first:], self._sources[first:]
        self._append({"role": "developer", "content": self._given[start:stop]}, start, stop)

    def _append(self, message: Fields, start: int, stop: int) -> None:
        self._messages.append(message)
        self._sources.append(Source(start, stop))


def kind_of(item: Fields) -> str:
    """Return the type of an item, which messages may leave out."""
    kind = item.get("type")
    if type(kind) is str:
        return kind
    return "message" if "role" in item else ""


def _begins(kind: str) -> bool:
    return kind in ("message", "reasoning")


def _is_said_or_called(item: Fields) -> bool:
    """Return whether the model spoke or called a tool of the client: then its turn may end."""
    kind = kind_of(item)
    return kind == "message" or kind in CALLS


def _is_reasoning(item: Fields) -> bool:
    return item.get("type") == "reasoning"


def _spoken(item: Fields) -> Fields:
    message = {"role": item["role"], "content": item.get("content")}
    if type(item.get("name")) is str:
        message["name"] = item["name"]
    return message


def _result(item: Fields) -> Fields:
    content = content_of_output(item)
    return {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}


def assistant_of(items: list[Fields]) -> Fields:
    """Return what the model said and called in these items as one assistant message."""
    said = [item for item in items if not _is_reasoning(item) and kind_of(item) not in CALLS]
    message: Fields = {"role": "assistant", "content": content_of(said)}
    thoughts = "\n".join(filter(None, map(_thoughts_of, items)))
    if thoughts:
        message["reasoning_content"] = thoughts
    calls = [_call(item) for item in items if kind_of(item) in CALLS]
    if calls:
        message["tool_calls"] = calls
    return message


def content_of(said: list[Fields]) -> Any:
    """Return the content of the model's messages: a text if it is only one, else parts."""
    if not said:
        return None
    content = said[0].get("content")
    if len(said) == 1 and kind_of(said[0]) == "message":
        return content if text_of_only_part(content) is None else text_of_only_part(content)
    parts: list[Any] = []
    for item in said:
        parts += parts_of(item)
    return parts


def parts_of(item: Fields) -> list[Any]:
    """Return the content parts of an item; an item without any is its own part."""
    if kind_of(item) != "message":
        return [item]
    content = item.get("content")
    if type(content) is list:
        return content
    return [] if content is None else [content]


def text_of_only_part(content: Any) -> str | None:
    """Return the text of a content that is one text part and nothing else."""
    if type(content) is not list or len(content) != 1 or type(content[0]) is not dict:
        return None
    text = content[0].get("text")
    is_text = content[0].get("type") in ("output_text", "input_text", "text")
    return text if is_text and type(text) is str else None


def _thoughts_of(item: Fields) -> str:
    if not _is_reasoning(item):
        return ""
    for name in ("content", "summary"):
        parts = item.get(name)
        if type(parts) is list and parts:
            texts = (part.get("text") for part in parts if type(part) is dict)
            return "\n".join(text for text in texts if type(text) is str)
    return ""


def _call(item: Fields) -> Fields:
    kind = kind_of(item)
    arguments = item.get(CALLS[kind])
    call_id = item.get("call_id") or item.get("id")
    if kind == "custom_tool_call":
        custom = {"name": item.get("name"), "input": arguments}
        return {"id": call_id, "type": "custom", "custom": custom}
    name = item.get("name") if kind == "function_call" else kind.removesuffix("_call")
    if type(arguments) is not str:
        arguments = serialise(arguments).decode()
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
