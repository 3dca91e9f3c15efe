"""Whether and how far a model may ask for what left its prompt."""

from dataclasses import dataclass
from typing import Any, Final

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

        Its model must be known to call tools, and only one answer may be asked for.
        """
        if not self.enabled or options.get("n") not in (None, 1):
            return False
        tools = options.get("tools")
        return self.without_tools or (type(tools) is list and bool(tools))


NO_RECALL: Final = RecallPolicy()
