"""The policy of summaries, and the token budgets that follow from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chat_proxy.compaction.budget import Budget

MIN_SUMMARY_TOKENS = 700
SUMMARY_SHARE = 8
LARGEST_SUMMARY_SHARE = 4
"""The divisor for small windows, which the minimum would fill."""


@dataclass(frozen=True, slots=True)
class SummaryPolicy:
    """The model that writes summaries, its instruction, and the time limits."""

    enabled: bool
    model: str | None
    base_url: str | None
    api_key: str | None = field(repr=False)
    timeout_seconds: float
    waits_at_trigger: bool
    keep_alive_seconds: float
    max_tokens: int
    temperature: float | None
    extra_body: Mapping[str, Any]
    instruction: str

    @property
    def substance(self) -> str:
        """The settings that decide the content of a summary, without secrets."""
        parts = (self.enabled, self.model, self.base_url, self.max_tokens, self.instruction)
        return repr((*parts, sorted(self.extra_body.items(), key=repr)))

    def summary_tokens(self, budget: Budget) -> int:
        """Return the maximum tokens of a summary in a window."""
        share = max(MIN_SUMMARY_TOKENS, budget.usable // SUMMARY_SHARE)
        return min(self.max_tokens, share, budget.usable // LARGEST_SUMMARY_SHARE)
