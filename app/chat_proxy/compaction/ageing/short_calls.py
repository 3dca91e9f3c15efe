"""Cut or clear the arguments of calls; cut the long text of the message that makes them."""

from collections.abc import Collection
from typing import Any, Final

from chat_proxy.chat.details_blocks import embedded_results, with_embedded_results
from chat_proxy.chat.message import Message
from chat_proxy.compaction.ageing.short import short_arguments, short_text

NO_ARGUMENTS: Final = "{}"


def with_short_calls(message: Message, max_bytes: int | None) -> Message:
    """Return the message with long arguments of its calls cut, and its own long text."""
    if max_bytes is None or not message.is_assistant:
        return message
    fields = dict(message.fields)
    calls = fields.get("tool_calls")
    if type(calls) is list:
        fields["tool_calls"] = [_short_call(call, max_bytes) for call in calls]
    if type(fields.get("function_call")) is dict:
        fields["function_call"] = _short_function(fields["function_call"], max_bytes)
    if type(fields.get("content")) is str:
        fields["content"] = _short_content(fields["content"], max_bytes)
    return message if fields == message.fields else Message(fields)


def with_cleared_calls(message: Message, numbers: Collection[int]) -> Message:
    """Return the message without the arguments of the calls with these numbers."""
    calls = message.fields.get("tool_calls")
    if not numbers or type(calls) is not list:
        return message
    cleared = [_cleared_call(it) if at in numbers else it for at, it in enumerate(calls)]
    return message if cleared == calls else Message({**message.fields, "tool_calls": cleared})


def _cleared_call(call: Any) -> Any:
    function = call.get("function") if type(call) is dict else None
    if type(function) is not dict:
        return call
    return {**call, "function": {**function, "arguments": NO_ARGUMENTS}}


def _short_content(text: str, max_bytes: int) -> str:
    """Cut an assistant's text; of embedded results only the inside, so that blocks stay whole."""
    results = embedded_results(text)
    if not results:
        return short_text(text, max_bytes)
    cut = {number: short_text(result.text, max_bytes) for number, result in enumerate(results)}
    return with_embedded_results(text, cut)


def _short_call(call: Any, max_bytes: int) -> Any:
    if type(call) is not dict:
        return call
    for key in ("function", "custom"):
        if type(call.get(key)) is dict:
            return {**call, key: _short_function(call[key], max_bytes)}
    return call


def _short_function(function: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    for key in ("arguments", "input"):
        if key in function:
            return {**function, key: short_arguments(function[key], max_bytes)}
    return function
