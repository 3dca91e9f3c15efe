"""Which part of a conversation a summary replaces, and what stays as it is."""

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
"""What a fold is to leave of the prompt, so that the next one is far away."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The span `messages[start:end]` that a summary replaces; `end` is a seam."""

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
    """Return the span between an earlier fold and the tail, or None if it would win nothing.

    `sizes` are the messages' tokens, `start` is where the earlier fold ends, `fixed` is all that
    no plan can remove: instructions, tools, a summary. `tail` is how many tokens are to stay.
    """
    if budget.trigger <= 0:
        return None
    end = _Tail(conversation, sizes, budget.trigger, tail, start).begin(fixed)
    return _planned(conversation, start, min(end, answered_until(conversation)))


def plan_by_turns(conversation: Conversation, keep_turns: int, *, start: int) -> Plan | None:
    """Return the span between an earlier fold and the last so many turns, whatever their size."""
    end = _start_of_last(conversation, keep_turns)
    return _planned(conversation, start, min(end, answered_until(conversation)))


def shrunk(
    plan: Plan, conversation: Conversation, sizes: Sequence[int], max_tokens: int
) -> Plan | None:
    """Return a plan whose span fits, without its newest groups, or None if nothing is left.

    The boundary moves back with the groups, so that it never claims what was not summarised.
    """
    sums = _sums(sizes)
    end = plan.start
    for seam in conversation.seams:
        if plan.start < seam <= plan.end and sums[seam] - sums[plan.start] <= max_tokens:
            end = seam
    return _planned(conversation, plan.start, end)


def carried(conversation: Conversation, end: int) -> tuple[int, ...]:
    """Return the user messages before `end` of the turn that goes on behind it.

    Only what stands before `end`, and whether a new turn begins there, decide: messages that
    are appended later change nothing.
    """
    for turn in conversation.turns:
        if turn.start < end < turn.end:
            return tuple(index for index in turn.users if index < end)
    return ()


def answered_until(conversation: Conversation) -> int:
    """Return where that begins which the model has not answered, calls with their results."""
    messages = conversation.messages
    for group in reversed(conversation.groups):
        if messages[group.start].is_assistant:
            return group.start if messages[group.start].calls_tools else group.end
    return conversation.instructions


def tail_tokens(budget: Budget, before: int = 0, growth: int = 0) -> int:
    """Return how many tokens of the newest messages a plan leaves as they are.

    They are fewer where much stands `before` them that no plan can remove, and by the `growth`
    that comes before a fold takes its place: the tail is to have the right size then, not now.
    """
    share = int(budget.usable * TAIL_SHARE)
    left = int(budget.trigger * LEFT_SHARE_OF_TRIGGER) - before
    tokens = max(SMALLEST_TAIL_TOKENS, min(LARGEST_TAIL_TOKENS, share, left))
    return max(0, min(tokens, int(budget.trigger * LARGEST_TAIL_SHARE_OF_TRIGGER)) - growth)


class _Tail:
    """The newest turns, as far as they were not folded before, weighed against the budget."""

    def __init__(
        self,
        conversation: Conversation,
        sizes: Sequence[int],
        trigger: int,
        room: int,
        start: int,
    ) -> None:
        self._groups = conversation.groups
        self._turns = [turn for turn in conversation.turns if turn.end > start]
        self._sizes = sizes
        self._sums = _sums(sizes)
        self._start = start
        self._trigger = trigger
        self._room = room

    def begin(self, fixed: int) -> int:
        """Return where the tail begins: at a turn, or inside one that alone is too large."""
        if not self._turns:
            return self._start
        tokens = self._weigh(self._turns[-1])
        if tokens > self._room and fixed + tokens >= self._trigger:
            return self._newest_groups(self._turns[-1])
        return self._newest_turns()

    def _newest_turns(self) -> int:
        *older, current = self._turns
        begin = current.start
        room = self._room - self._weigh(current)
        for turn in reversed(older):
            room -= self._weigh(turn)
            if room < 0:
                break
            begin = turn.start
        return begin

    def _newest_groups(self, turn: Turn) -> int:
        *older, last = (group for group in self._groups if group.start >= turn.start)
        begin = last.start
        for group in reversed(older):
            if self._sums[turn.end] - self._sums[group.start] > self._room:
                break
            begin = group.start
        return begin

    def _weigh(self, turn: Turn) -> int:
        """Return the tokens that are left of a turn: its user messages and its later steps."""
        left = max(turn.start, self._start)
        users = sum(self._sizes[index] for index in turn.users if index < left)
        return users + self._sums[turn.end] - self._sums[left]


def _planned(conversation: Conversation, start: int, end: int) -> Plan | None:
    end = _before_opening(conversation, end)
    return Plan(start, end) if end > start else None


def _before_opening(conversation: Conversation, end: int) -> int:
    """Move a boundary among a turn's first user messages before them, as they are carried."""
    for turn in conversation.turns:
        if turn.start < end <= turn.end:
            opening = conversation.messages[turn.start : end]
            return turn.start if all(message.is_user for message in opening) else end
    return end


def _start_of_last(conversation: Conversation, turns: int) -> int:
    """Return where the last so many turns begin."""
    kept = conversation.turns[-turns:] if turns > 0 else ()
    return kept[0].start if kept else len(conversation)


def _sums(sizes: Sequence[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))
