"""What the settings say about summaries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chat_proxy.compaction.budget import Budget

LEAST_SUMMARY_TOKENS = 700
SUMMARY_SHARE = 8
LARGEST_SUMMARY_SHARE = 5
"""The divisor that holds where the least would fill a small window."""
VERBATIM_TOKENS = 20_000
VERBATIM_SHARE = 10
LEAST_LEDGER_TOKENS = 256
MOST_LEDGER_TOKENS = 2_000
LEDGER_SHARE = 40
LARGEST_LEDGER_SHARE = 20


@dataclass(frozen=True, slots=True)
class SummaryPolicy:
    """Who writes summaries, how they are asked for, and how long anyone waits."""

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
        """All that decides what a summary says, and nothing secret."""
        parts = (self.enabled, self.model, self.base_url, self.max_tokens, self.instruction)
        return repr((*parts, sorted(self.extra_body.items(), key=repr)))

    def summary_tokens(self, budget: Budget) -> int:
        """Return how long a summary may be in a window."""
        most = max(LEAST_SUMMARY_TOKENS, budget.usable // SUMMARY_SHARE)
        return min(self.max_tokens, most, budget.usable // LARGEST_SUMMARY_SHARE)


def verbatim_tokens(budget: Budget) -> int:
    """Return how many tokens of the user's own words are kept."""
    return min(VERBATIM_TOKENS, budget.usable // VERBATIM_SHARE)


def ledger_tokens(budget: Budget) -> int:
    """Return how many tokens the facts may take that a summary lost."""
    most = max(LEAST_LEDGER_TOKENS, min(MOST_LEDGER_TOKENS, budget.usable // LEDGER_SHARE))
    return min(most, budget.usable // LARGEST_LEDGER_SHARE)
