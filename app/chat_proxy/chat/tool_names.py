"""The call that each tool result of a conversation answers."""

from typing import Any, NamedTuple

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.chat.texts import call_parts


class ResultCall(NamedTuple):
    """The call that a result answers: the tool's name and its arguments, each empty if unknown."""

    tool: str = ""
    arguments: str = ""


_UNKNOWN = ResultCall()


def tool_name_of_results(conversation: Conversation) -> dict[int, str]:
    """Return the tool name of each result by its index; empty if it is unknown."""
    return {index: call.tool for index, call in call_of_results(conversation).items()}


def call_of_results(conversation: Conversation) -> dict[int, ResultCall]:
    """Return the call of each result by its index.

    The result's own `name` takes precedence, then the nearest earlier call with its id. A result
    without an id belongs to the calls that it follows if they all name the same tool.
    """
    found: dict[int, ResultCall] = {}
    by_id: dict[str, ResultCall] = {}
    nearest = _UNKNOWN
    for index, message in enumerate(conversation.messages):
        if message.is_tool_result:
            call = by_id.get(message.answers or "", nearest)
            own = _own_name(message)
            found[index] = call._replace(tool=own) if own else call
        elif message.is_assistant and message.calls_tools:
            called = _ids_and_calls(message)
            by_id.update((name, call) for name, call in called if name)
            tools = {call.tool for _, call in called}
            nearest = ResultCall(tools.pop()) if len(tools) == 1 else _UNKNOWN
            if len(called) == 1:
                nearest = called[0][1]
        else:
            nearest = _UNKNOWN
    return found


def _own_name(message: Message) -> str:
    name = message.fields.get("name")
    return name if type(name) is str else ""


def _ids_and_calls(message: Message) -> list[tuple[str, ResultCall]]:
    """Return the id of every call, empty if it is missing, and the call."""
    calls: Any = message.fields.get("tool_calls")
    found = [_id_and_call(call) for call in calls] if type(calls) is list else []
    legacy = message.fields.get("function_call")
    if legacy:
        found.append(("", ResultCall(*call_parts(legacy))))
    return found


def _id_and_call(call: Any) -> tuple[str, ResultCall]:
    if type(call) is not dict:
        return "", _UNKNOWN
    call_id = call.get("id")
    parts = call_parts(call.get("function") or call.get("custom"))
    return (call_id if type(call_id) is str else ""), ResultCall(*parts)


def name_of_tool(tool: Any) -> Any:
    """Return the name of a tool as a request defines it, in the words of any API."""
    if type(tool) is not dict:
        return None
    function = tool.get("function")
    return function.get("name") if type(function) is dict else tool.get("name")
