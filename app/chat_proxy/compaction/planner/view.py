"""What the planner sees of a request: messages, their tokens, and what was decided before."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from chat_proxy.caches import cached_once
from chat_proxy.chat.conversation import (
    Conversation,
    answered_until,
    before_opening,
    carried,
)
from chat_proxy.chat.groups import Group
from chat_proxy.chat.media import Media
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.planner.news import demand_sizes, news_sizes
from chat_proxy.tokens.images.fit import Fit

NEWEST_STEPS = 2
ANSWERS_OF_PACE = 20
TRIGGER_SHARE = 0.8
KEPT_SHARE = 0.45
LEAST_LEFT = 1_024
"""What a client's trigger leaves a conversation at least, if it is below its instructions."""


def no_fit(_medium: Media, _max_tokens: int) -> Fit | None:
    """Return no smaller form: media are not scaled."""
    return None


@dataclass(frozen=True)
class View:
    """A conversation as it would be sent without any fold, with its sizes in tokens."""

    conversation: Conversation
    """The trimmed conversation with the earlier treatments applied."""
    sizes: Sequence[int]
    """The tokens of each message."""
    beside: int
    """The tokens that belong to no message: tool definitions, the frame of the answer."""
    budget: Budget
    folded: int
    """The index of the first message that no fold replaces yet."""
    fold_tokens: int
    """The tokens of the folded text as it is now; 0 without one."""
    treatments: Treatments
    """The treatments that were applied before."""
    count: Callable[[str], int]
    """Returns the tokens of a text."""
    media_sizes: Callable[[int], Sequence[int]]
    """Returns the tokens of each medium of a message, by its index."""
    fit: Callable[[Media, int], Fit | None] = no_fit
    """Returns the smaller form of a medium with at most so many tokens, None if it has none."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why messages are shown smaller already, by their index."""

    def with_fold(self, tokens: int) -> "View":
        """Return the view with the tokens of the folded text."""
        return replace(self, fold_tokens=tokens)

    @cached_once
    def sums(self) -> list[int]:
        """The running totals of the sizes."""
        return list(accumulate(self.sizes, initial=0))

    @cached_once
    def result_sums(self) -> list[int]:
        """The running totals of the sizes of tool results alone."""
        sizes = (
            size if message.is_tool_result else 0
            for size, message in zip(self.sizes, self.conversation.messages, strict=True)
        )
        return list(accumulate(sizes, initial=0))

    @cached_once
    def news_sums(self) -> list[int]:
        """The running totals of the tokens that say something new."""
        return list(accumulate(self._news, initial=0))

    @cached_once
    def result_counts(self) -> list[int]:
        """The running numbers of tool results."""
        results = (message.is_tool_result for message in self.conversation.messages)
        return list(accumulate(results, initial=0))

    @cached_once
    def result_news_sums(self) -> list[int]:
        """The running totals of the tokens of tool results that say something new."""
        messages = self.conversation.messages
        sizes = zip(self._news, messages, strict=True)
        results = (size if message.is_tool_result else 0 for size, message in sizes)
        return list(accumulate(results, initial=0))

    @cached_once
    def _news(self) -> list[int]:
        return list(news_sizes(self.conversation.messages, self.sizes))

    @cached_once
    def demand_sums(self) -> list[int]:
        """The running totals of the tokens of what the user demands."""
        return list(accumulate(demand_sizes(self.conversation.messages, self.count), initial=0))

    @property
    def fixed(self) -> int:
        """The tokens that no plan can remove: instructions and what is beside the messages."""
        return self.beside + self.sums[self.conversation.instructions]

    @property
    def trigger(self) -> int:
        """The prompt size from which this conversation is compacted.

        Where instructions and tools take most of the window, it is the same share of what they
        leave: otherwise every request would be over it.
        """
        trigger = self.budget.trigger
        if self.budget.is_literal or self.fixed <= trigger // 2:
            return trigger
        limit = self.budget.limit
        left = max(0, limit - self.fixed)
        return max(trigger, min(limit, self.fixed + int(left * TRIGGER_SHARE)))

    @property
    def target(self) -> int:
        """The prompt size at which a compaction ends.

        The conversation keeps almost half of what instructions and tools leave it.
        """
        left = self.trigger - self.fixed
        if self.budget.is_literal:
            left = max(left, min(LEAST_LEFT, self.tokens - self.fixed))
        if self.trigger == self.budget.trigger:
            return max(self.budget.target(self.pace), self.fixed + int(left * KEPT_SHARE))
        return min(self.fixed + left // 2, self.budget.limit)

    @property
    def tokens(self) -> int:
        """The tokens of the prompt as it is now, with the earlier decisions applied."""
        return self.fixed + self.fold_tokens + self.left_after(self.folded)

    def left_after(self, end: int) -> int:
        """Return the tokens that stay beside a fold of all messages before `end`."""
        users = sum(self.sizes[index] for index in carried(self.conversation, end))
        return users + self.sums[-1] - self.sums[end]

    @cached_once
    def newest_steps(self) -> tuple[Group, ...]:
        """The newest tool calls with their results that the model works with, at most two.

        They belong to the current turn, or have no answer yet because the user interrupted.
        """
        messages = self.conversation.messages
        start = min(self.current_start, answered_until(self.conversation))
        steps = [
            group
            for group in self.conversation.groups
            if group.start >= start and messages[group.start].is_assistant
        ]
        return tuple(steps[-NEWEST_STEPS:])

    @property
    def current_start(self) -> int:
        """The index of the first message of the current turn, or the length without a turn."""
        turn = self.conversation.current_turn
        return turn.start if turn else len(self.conversation)

    @property
    def last_end(self) -> int:
        """The last index at which a fold may end so that the current request stays."""
        return self._bounded_end(self.newest_steps[0].start if self.newest_steps else None)

    @property
    def smallest_end(self) -> int:
        """The last index at which any fold may end: before the newest step."""
        return self._bounded_end(self.newest_steps[-1].start if self.newest_steps else None)

    def _bounded_end(self, step: int | None) -> int:
        end = self.current_start if step is None else step
        end = min(end, answered_until(self.conversation))
        return max(self.folded, before_opening(self.conversation, end))

    @cached_once
    def pace(self) -> int:
        """The tokens by which the conversation grows with each request, of late."""
        return pace_of(self.conversation, self.sizes)


def pace_of(conversation: Conversation, sizes: Sequence[int]) -> int:
    """Return the tokens by which a conversation grows with each request, of late."""
    answers = [
        index
        for index, fields in enumerate(conversation.fields)
        if fields.get("role") == "assistant"
    ][-ANSWERS_OF_PACE:]
    return sum(sizes[answers[0] :]) // len(answers) if answers else 0
