"""Choose the span that a summary replaces, and the tail that stays unchanged."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from chat_proxy.chat.conversation import Conversation, Turn
from chat_proxy.compaction.budget import Budget

TAIL_SHARE = 0.25
SMALLEST_TAIL_TOKENS = 2_000
LARGEST_TAIL_TOKENS = 15_000
LARGEST_TAIL_SHARE_OF_TRIGGER = 0.4
LEFT_SHARE_OF_TRIGGER = 0.5
"""The prompt after a fold as a share of the trigger, so that the next fold is far away."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The span `messages[start:end]` that a summary replaces; `end` is a seam between groups."""

    start: int
    end: int


def plan(
    conversation: Conversation,
    sizes: Sequence[int],
    budget: Budget,
    *,
    start: int,
    fixed: int,
    tail: int,
) -> Plan | None:
    """Return the span between an earlier fold and the tail, or None if there is nothing to gain.

    `sizes` are the messages' tokens, `start` is where the earlier fold ends, `fixed` is the tokens
    that no plan can remove: instructions, tools, a summary. `tail` is the tokens to keep.
    """
    if budget.trigger <= 0:
        return None
    end = _Tail(conversation, sizes, budget.trigger, tail, start).begin(fixed)
    return _planned(conversation, start, min(end, answered_until(conversation)))


def plan_by_turns(conversation: Conversation, keep_turns: int, *, start: int) -> Plan | None:
    """Return the span between an earlier fold and the last `keep_turns` turns of any size."""
    end = _start_of_last(conversation, keep_turns)
    return _planned(conversation, start, min(end, answered_until(conversation)))


def shrunk(
    plan: Plan, conversation: Conversation, sizes: Sequence[int], max_tokens: int
) -> Plan | None:
    """Return the plan without its newest groups, so that its span fits; None if nothing is left.

    The boundary moves back with the groups, so that it never covers what was not summarised.
    """
    sums = _running_totals(sizes)
    end = plan.start
    for seam in conversation.seams:
        if plan.start < seam <= plan.end and sums[seam] - sums[plan.start] <= max_tokens:
            end = seam
    return _planned(conversation, plan.start, end)


def carried(conversation: Conversation, end: int) -> tuple[int, ...]:
    """Return the user messages before `end` of the turn that continues after it.

    The result depends only on the messages before `end` and on whether a new turn begins there:
    messages that are appended later do not change it.
    """
    for turn in conversation.turns:
        if turn.start < end < turn.end:
            return tuple(index for index in turn.users if index < end)
    return ()


def answered_until(conversation: Conversation) -> int:
    """Return the index of the first unanswered message; a call stays with its results."""
    messages = conversation.messages
    for group in reversed(conversation.groups):
        if messages[group.start].is_assistant:
            return group.start if messages[group.start].calls_tools else group.end
    return conversation.instructions


def tail_tokens(budget: Budget, before: int = 0, growth: int = 0) -> int:
    """Return how many tokens of the newest messages a plan keeps unchanged.

    `before` is the tokens in front of them that no plan can remove: the more, the smaller the
    tail. `growth` is what will be added before the fold is applied; it is subtracted, because the
    tail must have the right size then, not now.
    """
    share = int(budget.usable * TAIL_SHARE)
    remaining = int(budget.trigger * LEFT_SHARE_OF_TRIGGER) - before
    tokens = max(SMALLEST_TAIL_TOKENS, min(LARGEST_TAIL_TOKENS, share, remaining))
    return max(0, min(tokens, int(budget.trigger * LARGEST_TAIL_SHARE_OF_TRIGGER)) - growth)


class _Tail:
    """The newest turns that are not folded yet, as many as `max_tokens` allows."""

    def __init__(
        self,
        conversation: Conversation,
        sizes: Sequence[int],
        trigger: int,
        max_tokens: int,
        start: int,
    ) -> None:
        self._groups = conversation.groups
        self._turns = [turn for turn in conversation.turns if turn.end > start]
        self._sizes = sizes
        self._sums = _running_totals(sizes)
        self._start = start
        self._trigger = trigger
        self._max_tokens = max_tokens

    def begin(self, fixed: int) -> int:
        """Return where the tail begins: at a turn, or inside one that alone is too large."""
        if not self._turns:
            return self._start
        tokens = self._tokens_of(self._turns[-1])
        if tokens > self._max_tokens and fixed + tokens >= self._trigger:
            return self._newest_groups(self._turns[-1])
        return self._newest_turns()

    def _newest_turns(self) -> int:
        *older, current = self._turns
        begin = current.start
        remaining = self._max_tokens - self._tokens_of(current)
        for turn in reversed(older):
            remaining -= self._tokens_of(turn)
            if remaining < 0:
                break
            begin = turn.start
        return begin

    def _newest_groups(self, turn: Turn) -> int:
        *older, last = (group for group in self._groups if group.start >= turn.start)
        begin = last.start
        for group in reversed(older):
            if self._sums[turn.end] - self._sums[group.start] > self._max_tokens:
                break
            begin = group.start
        return begin

    def _tokens_of(self, turn: Turn) -> int:
        """Return the tokens of a turn that are not folded: user messages and later steps."""
        first = max(turn.start, self._start)
        users = sum(self._sizes[index] for index in turn.users if index < first)
        return users + self._sums[turn.end] - self._sums[first]


def _planned(conversation: Conversation, start: int, end: int) -> Plan | None:
    end = _before_opening(conversation, end)
    return Plan(start, end) if end > start else None


def _before_opening(conversation: Conversation, end: int) -> int:
    """Move a boundary inside a turn's opening user messages before them, as a fold keeps them."""
    for turn in conversation.turns:
        if turn.start < end <= turn.end:
            opening = conversation.messages[turn.start : end]
            return turn.start if all(message.is_user for message in opening) else end
    return end


def _start_of_last(conversation: Conversation, turns: int) -> int:
    """Return the index where the last `turns` turns begin."""
    kept = conversation.turns[-turns:] if turns > 0 else ()
    return kept[0].start if kept else len(conversation)


def _running_totals(sizes: Sequence[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))
