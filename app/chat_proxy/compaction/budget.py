"""How many tokens a request may have, and from where on something must be done about it."""

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
    """The shares of the window at which work begins, and what is kept free for the answer."""

    threshold: float
    prepare: float
    reserve_tokens: int | None


@dataclass(frozen=True, slots=True)
class Budget:
    """A window cut into what the prompt may use and what the answer keeps."""

    window: int
    reserve: int
    usable: int
    trigger: int
    prepare: int
    input_limit: int | None = None
    """What the prompt alone may take, where the upstream counts it apart."""

    @property
    def target(self) -> int:
        """What the clear stages must come down to, or a summary is needed as well."""
        return int(self.trigger * TARGET_SHARE)

    @property
    def least_growth(self) -> int:
        """What a prompt must grow by before it is folded again, and a fold must make room for."""
        return int(self.trigger * GROWTH_SHARE)

    @property
    def patience(self) -> int:
        """Up to where a better summary is waited for; the answer keeps all its room."""
        return min(self.usable, self.trigger + self.least_growth)

    @property
    def late(self) -> int:
        """From where on even a summary that wins little is written."""
        return (self.trigger + self.patience) // 2

    @property
    def limit(self) -> int:
        """The longest prompt that leaves room for some answer; vLLM clips what does not fit."""
        room = self.window - max(self.reserve // 4, self.window // 50)
        return min(room, self.input_limit or room)

    @classmethod
    def of(
        cls,
        window: int,
        fields: dict[str, Any],
        policy: BudgetPolicy,
        input_limit: int | None = None,
    ) -> "Budget":
        """Return the budget of a request in a window.

        The reserve is never more than a quarter of the window: agents ask for 32,000 tokens of
        output on any model, and vLLM clips what does not fit.
        """
        wanted = policy.reserve_tokens or _asked(fields) or DEFAULT_RESERVE_TOKENS
        reserve = min(wanted, int(window * LARGEST_RESERVE_SHARE))
        return _cut(window, reserve, policy.threshold, policy.prepare, input_limit)


def _asked(fields: dict[str, Any]) -> int:
    """Return the tokens that a request asks for its answer, 0 if it does not say."""
    for asked in (fields.get("max_completion_tokens"), fields.get("max_tokens")):
        if type(asked) is int and asked > 0:  # a boolean is none
            return asked
    return 0


@lru_cache(REMEMBERED_BUDGETS)
def _cut(
    window: int, reserve: int, threshold: float, prepare: float, input_limit: int | None
) -> Budget:
    usable = min(window - reserve, input_limit or window)
    trigger = int(usable * threshold)
    return Budget(window, reserve, usable, trigger, int(usable * prepare), input_limit)
