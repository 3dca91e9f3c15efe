"""Whether and how far a model may ask for what left its prompt."""

from dataclasses import dataclass
from typing import Any, Final

from chat_proxy.chat.tool_names import name_of_tool
from chat_proxy.compaction.recall.references import TOOL_NAME

TOOL_TOKENS: Final = 220
"""At least the tokens of the tool's definition; they are kept free in the window."""


@dataclass(frozen=True, slots=True)
class RecallPolicy:
    """The limits of recall for a model."""

    enabled: bool = False
    max_rounds: int = 3
    max_tokens: int = 4_000
    without_tools: bool = False

    def offers(self, options: dict[str, Any]) -> bool:
        """Return whether a request with these options may get the tool.

        Its model must be known to call tools, and only one answer may be asked for. Not where the
        answer must be JSON, which text in front of a call would spoil, and not where the client
        has a tool of this name itself.
        """
        if not self.enabled or options.get("n") not in (None, 1) or wants_json(options):
            return False
        tools = options.get("tools")
        if type(tools) is not list or not tools:
            return self.without_tools
        return not any(name_of_tool(tool) == TOOL_NAME for tool in tools)


def wants_json(options: dict[str, Any]) -> bool:
    """Return whether a request asks for an answer in JSON."""
    wanted = options.get("response_format")
    return type(wanted) is dict and wanted.get("type") in ("json_object", "json_schema")


NO_RECALL: Final = RecallPolicy()
