"""Which tool results and media may age, and how far."""

from dataclasses import dataclass

from chat_proxy.compaction.budget import Budget

DEFAULT_PROTECT_SHARE = 4
DEFAULT_MINIMUM_SHARE = 8


@dataclass(frozen=True, slots=True)
class AgeingPolicy:
    """What stays whole while a prompt can reach its target otherwise."""

    enabled: bool
    protect_tokens: int
    """Tokens of the newest tool output that stay whole."""
    minimum_tokens: int
    """The minimum gain that justifies breaking the upstream's cache."""
    protect_turns: int
    """Turns whose results stay whole, including the current, while they are below the trigger."""
    protected_tools: frozenset[str]
    keep_results: int
    """How many of the newest results stay whole, whatever their size."""
    keep_user_media: int
    keep_tool_media: int
    old_max_bytes: int
    """The size to which an old result is shortened before one line is left of it."""
    exempt_tools: frozenset[str] = frozenset()
    """Tools whose results are never shortened."""
    keep_images: int = 1
    """How many of the newest images stay, in whatever message they are."""
    is_protect_literal: bool = False
    """Whether the operator set `protect_tokens`; otherwise it is at most a quarter of a window."""
    is_minimum_literal: bool = False
    """Whether the operator set `minimum_tokens`; otherwise it is at most an eighth of a window."""

    def protected(self, budget: Budget) -> int:
        """Return how many tokens of the newest results stay whole in this window."""
        if self.is_protect_literal:
            return self.protect_tokens
        return min(self.protect_tokens, budget.window // DEFAULT_PROTECT_SHARE)

    def minimum(self, budget: Budget) -> int:
        """Return the minimum gain in this window."""
        if self.is_minimum_literal:
            return self.minimum_tokens
        return min(self.minimum_tokens, budget.window // DEFAULT_MINIMUM_SHARE)

    def least_gain(self, budget: Budget, wanted: int) -> int:
        """Return the minimum gain of a compaction that would reach its target by `wanted` tokens.

        Without the operator's setting, a compaction that reaches its target saves enough.
        """
        minimum = self.minimum(budget)
        return minimum if self.is_minimum_literal else min(minimum, wanted)

    def most_gain(self, tokens: int, largest: int, budget: Budget) -> int:
        """Return the maximum gain from ageing results of this total size.

        Counted from the newest, the result that exceeds the protected tokens ages as a whole.
        """
        beyond = tokens - self.protected(budget)
        return min(tokens, beyond + largest) if self.enabled and beyond > 0 else 0
