"""Which wire a path or a body belongs to."""

from typing import Final

from chat_proxy.chat.message_features import is_list_of_objects
from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS
from chat_proxy.wires.messages.wire import MESSAGES
from chat_proxy.wires.reading import Fields
from chat_proxy.wires.responses.wire import RESPONSES
from chat_proxy.wires.wire import Wire

WIRES: Final[tuple[Wire, ...]] = (CHAT_COMPLETIONS, RESPONSES, MESSAGES)
_MESSAGES_ONLY: Final = ("system", "thinking", "stop_sequences", "context_management")
_MESSAGES_BLOCKS: Final = ("tool_use", "tool_result", "thinking", "redacted_thinking")


def wire_of_path(path: str) -> Wire:
    """Return the wire of a path; errors on all paths below a wire's own have its form."""
    for wire in (RESPONSES, MESSAGES):
        if path.startswith(f"/v1{wire.path}"):
            return wire
    return CHAT_COMPLETIONS


def wire_of_body(fields: Fields) -> Wire:
    """Return the wire that a body was written for, by what only that wire has."""
    if "messages" not in fields:
        return RESPONSES if "input" in fields else CHAT_COMPLETIONS
    if any(name in fields for name in _MESSAGES_ONLY):
        return MESSAGES
    tools = fields.get("tools")
    if type(tools) is list and any(type(it) is dict and "input_schema" in it for it in tools):
        return MESSAGES
    messages = fields["messages"]
    if not is_list_of_objects(messages) or any("tool_calls" in it for it in messages):
        return CHAT_COMPLETIONS
    contents = [it.get("content") for it in messages]
    blocks = [block for content in contents if type(content) is list for block in content]
    has_own = any(type(it) is dict and it.get("type") in _MESSAGES_BLOCKS for it in blocks)
    return MESSAGES if has_own else CHAT_COMPLETIONS
