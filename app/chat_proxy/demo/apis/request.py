"""Requests of Responses and Messages in the form of chat completions."""

from typing import Any

from chat_proxy.demo.model.messages import as_dict, as_list
from chat_proxy.wires.recognise import wire_of_path

OPTIONS = ("max_completion_tokens", "max_tokens", "tool_choice", "parallel_tool_calls")
Fields = dict[str, Any]


def chat_fields(path: str, fields: Fields) -> Fields:
    """Return a body of an API as a body of chat completions, with its functions as only tools.

    What the upstream of such an API would run itself, such as a web search, the model cannot call.
    """
    reading = wire_of_path(path).read(fields)
    offered = as_list(reading.options.get("tools"))
    tools = [tool for tool in offered if "function" in as_dict(tool)]
    options = {name: reading.options[name] for name in OPTIONS if name in reading.options}
    choice = options.get("tool_choice")
    if not tools:
        options.pop("tool_choice", None)
    elif isinstance(choice, dict) and "name" in choice:
        options["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
    if as_dict(fields.get("tool_choice")).get("disable_parallel_tool_use") is True:
        options["parallel_tool_calls"] = False
    chat: Fields = {"model": fields.get("model"), "stream": fields.get("stream"), **options}
    if reading.messages is not None:
        chat["messages"] = reading.messages
    return {**chat, "tools": tools} if tools else chat
