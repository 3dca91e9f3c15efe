"""The tool from which each result of a conversation came."""

from typing import Any

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message


def tool_name_of_results(conversation: Conversation) -> dict[int, str]:
    """Return the tool name of each result by its index; empty if it is unknown.

    The result's own `name` takes precedence, then the nearest earlier call with its id. A result
    without an id belongs to the calls that it follows if they all name the same tool.
    """
    names: dict[int, str] = {}
    by_id: dict[str, str] = {}
    nearest = ""
    for index, message in enumerate(conversation.messages):
        if message.is_tool_result:
            names[index] = _own_name(message) or by_id.get(message.answers or "", nearest)
        elif message.is_assistant and message.calls_tools:
            called = _ids_and_tools(message)
            by_id.update((name, tool) for name, tool in called if name)
            tools = {tool for _, tool in called}
            nearest = tools.pop() if len(tools) == 1 else ""
        else:
            nearest = ""
    return names


def _own_name(message: Message) -> str:
    name = message.fields.get("name")
    return name if type(name) is str else ""


def _ids_and_tools(message: Message) -> list[tuple[str, str]]:
    """Return the id and tool name of every call, each empty if it is missing."""
    calls: Any = message.fields.get("tool_calls")
    found = [_id_and_tool(call) for call in calls] if type(calls) is list else []
    legacy = message.fields.get("function_call")
    if legacy:
        found.append(("", _text_under(legacy, "name")))
    return found


def _id_and_tool(call: Any) -> tuple[str, str]:
    if type(call) is not dict:
        return "", ""
    return _text_under(call, "id"), _text_under(call.get("function") or call.get("custom"), "name")


def _text_under(fields: Any, key: str) -> str:
    value = fields.get(key) if type(fields) is dict else None
    return value if type(value) is str else ""
