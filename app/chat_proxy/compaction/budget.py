"""The token budget of a request: its window, the reserve for the answer and the thresholds."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

DEFAULT_RESERVE_TOKENS = 20_000
LARGEST_RESERVE_SHARE = 0.25
TARGET_SHARE = 0.6
GROWTH_SHARE = 1 / 3
REMEMBERED_BUDGETS = 1_000


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """The shares of the usable window at which work begins, and the reserve for the answer."""

    threshold: float
    prepare: float
    reserve_tokens: int | None


@dataclass(frozen=True, slots=True)
class Budget:
    """A context window divided between the prompt and the answer, in tokens."""

    window: int
    reserve: int
    usable: int
    trigger: int
    prepare: int
    input_limit: int | None = None
    """The maximum for the prompt alone, where the upstream limits it separately."""

    @property
    def target(self) -> int:
        """The prompt size that the clear stages must reach; else a summary is needed as well."""
        return int(self.trigger * TARGET_SHARE)

    @property
    def least_growth(self) -> int:
        """The minimum growth before a prompt is folded again, and the minimum gain of a fold."""
        return int(self.trigger * GROWTH_SHARE)

    @property
    def patience(self) -> int:
        """The largest prompt that can wait for a better summary; the reserve stays untouched."""
        return min(self.usable, self.trigger + self.least_growth)

    @property
    def late(self) -> int:
        """The prompt size from which even a summary with a small gain is written."""
        return (self.trigger + self.patience) // 2

    @property
    def limit(self) -> int:
        """The longest prompt that leaves space for some answer; vLLM clips what does not fit."""
        available = self.window - max(self.reserve // 4, self.window // 50)
        return min(available, self.input_limit or available)

    @classmethod
    def of(
        cls,
        window: int,
        fields: dict[str, Any],
        policy: BudgetPolicy,
        input_limit: int | None = None,
        max_output: int | None = None,
    ) -> "Budget":
        """Return the budget of a request in a window.

        `max_output` is the longest answer of the model, for requests that set no limit. The
        reserve is at most a quarter of the window: agents ask for 32,000 output tokens on any
        model, and vLLM clips output that does not fit.
        """
        requested = _requested_output(fields) or max_output or DEFAULT_RESERVE_TOKENS
        wanted = policy.reserve_tokens or requested
        reserve = min(wanted, int(window * LARGEST_RESERVE_SHARE))
        return _divided(window, reserve, policy.threshold, policy.prepare, input_limit)


def _requested_output(fields: dict[str, Any]) -> int:
    """Return the output tokens that a request asks for, 0 if it sets no valid limit."""
    for requested in (fields.get("max_completion_tokens"), fields.get("max_tokens")):
        if type(requested) is int and requested > 0:  # bool is a subclass of int
            return requested
    return 0


@lru_cache(REMEMBERED_BUDGETS)
def _divided(
    window: int, reserve: int, threshold: float, prepare: float, input_limit: int | None
) -> Budget:
    """Return the budget, cached by these numbers alone; it holds nothing of a request's content."""
    usable = min(window - reserve, input_limit or window)
    trigger = int(usable * threshold)
    return Budget(window, reserve, usable, trigger, int(usable * prepare), input_limit)
