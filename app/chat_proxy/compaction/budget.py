"""The token budget of a request: its window, the reserve for the answer and the thresholds."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

DEFAULT_RESERVE_TOKENS = 20_000
DEFAULT_RESERVE_SHARE = 8
LARGEST_RESERVE_SHARE = 4
REQUESTS_BETWEEN_COMPACTIONS = 20
SMALLEST_TARGET_SHARE = 0.5
LARGEST_TARGET_SHARE = 0.85
REQUESTS_TO_PREPARE = 2
LEAST_GAIN = 0.1
MARGIN_SHARE = 100
"""The window divided by this is kept free, because the prompt's size is an estimate."""
REMEMBERED_BUDGETS = 1_000


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """The shares of the usable window at which work begins, the reserve, and the tail."""

    threshold: float
    prepare: float
    reserve_tokens: int | None = None
    reserve_ratio: float | None = None
    tail_turns: int | None = None
    tail_tokens: int | None = None
    min_answer_tokens: int = 256

    @property
    def has_own_tail(self) -> bool:
        """Whether the operator says how much a summary leaves unchanged."""
        return self.tail_turns is not None or self.tail_tokens is not None

    def reserve(self, window: int, wanted: int | None) -> int:
        """Return the tokens reserved for the answer in a window.

        The operator's reserve is taken literally. Otherwise it is at most a quarter of the window:
        agents ask for 32,000 output tokens on any model, and vLLM clips output that does not fit.
        """
        if self.reserve_tokens is not None:
            return self.reserve_tokens
        if self.reserve_ratio is not None:
            return int(window * self.reserve_ratio)
        default = min(DEFAULT_RESERVE_TOKENS, window // DEFAULT_RESERVE_SHARE)
        return min(wanted or default, window // LARGEST_RESERVE_SHARE)


@dataclass(frozen=True, slots=True)
class Budget:
    """A context window divided between the prompt and the answer, in tokens."""

    window: int
    reserve: int
    usable: int
    trigger: int
    prepare: int
    least_answer: int
    """The shortest answer that is worth sending a request for."""
    input_limit: int | None = None
    """The maximum for the prompt alone, where the upstream limits it separately."""
    is_literal: bool = False
    """Whether the client chose the trigger, however small it is."""

    def with_trigger(self, tokens: int) -> "Budget":
        """Return the budget with the client's trigger, unless the window demands an earlier one."""
        if tokens >= self.trigger:
            return self
        prepare = tokens * self.prepare // max(1, self.trigger)
        return replace(self, trigger=tokens, prepare=prepare, is_literal=True)

    def target(self, pace: int) -> int:
        """Return the prompt size at which a compaction ends.

        About twenty requests of the conversation's own growth (`pace`) fit between it and the
        trigger: a chat that grows slowly need not lose half of its window.
        """
        wanted = self.trigger - REQUESTS_BETWEEN_COMPACTIONS * pace
        largest = int(self.trigger * LARGEST_TARGET_SHARE)
        return min(largest, max(int(self.trigger * SMALLEST_TARGET_SHARE), wanted))

    def prepare_from(self, pace: int) -> int:
        """Return the prompt size from which a summary is prepared: two requests ahead."""
        return max(self.prepare, self.trigger - REQUESTS_TO_PREPARE * pace)

    @property
    def limit(self) -> int:
        """The longest prompt that leaves space for an ordinary answer."""
        available = self.window - max(self.reserve // 4, self.least_answer, self.window // 50)
        return min(available, self.input_limit or available)

    @property
    def hard_limit(self) -> int:
        """The longest prompt that leaves space for the shortest answer worth having."""
        available = self.window - self.least_answer - self.window // MARGIN_SHARE - 1
        return max(self.limit, min(available, self.input_limit or available))

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

        `max_output` is the longest answer of the model, for requests that set no limit.
        """
        requested = requested_output(fields)
        reserve = policy.reserve(window, requested or max_output)
        least_answer = min(policy.min_answer_tokens, requested or policy.min_answer_tokens)
        return _divided(
            window, reserve, policy.threshold, policy.prepare, least_answer, input_limit
        )


def requested_output(fields: dict[str, Any]) -> int:
    """Return the output tokens that a request asks for, 0 if it sets no valid limit."""
    for requested in (fields.get("max_completion_tokens"), fields.get("max_tokens")):
        if type(requested) is int and requested > 0:  # bool is a subclass of int
            return requested
    return 0


@lru_cache(REMEMBERED_BUDGETS)
def _divided(
    window: int,
    reserve: int,
    threshold: float,
    prepare: float,
    least_answer: int,
    input_limit: int | None,
) -> Budget:
    """Return the budget, cached by these numbers alone; it holds nothing of a request's content."""
    usable = min(window - reserve, input_limit or window)
    trigger = int(usable * threshold)
    return Budget(
        window, reserve, usable, trigger, int(usable * prepare), least_answer, input_limit
    )
