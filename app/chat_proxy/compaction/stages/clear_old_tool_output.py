"""The stage that decides which old tool results to clear or shorten."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.compaction.apply_clearing import clear
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.clearing import Clearing, Place
from chat_proxy.compaction.stages.clear_stage import Pressure
from chat_proxy.compaction.tool_results import ToolResult, seen_until, tool_results


@dataclass(frozen=True, slots=True)
class ClearOldToolOutputPolicy:
    """How much tool output is kept, and the gain that justifies breaking the upstream's cache."""

    enabled: bool
    protect_tokens: int
    """Tokens of the newest tool output that are kept; at most a quarter of the window."""
    minimum_tokens: int
    """The minimum gain in tokens; at most an eighth of the window."""
    protect_turns: int
    """Turns whose results are kept, including the current, while they are below the trigger."""
    protected_tools: frozenset[str]
    keep_results: int
    """How many of the newest results are kept, whatever their size."""
    old_max_bytes: int
    """The size to which an old result is shortened before it is cleared."""

    def protected(self, budget: Budget) -> int:
        """Return how many tokens of the newest results are kept in this window."""
        return min(self.protect_tokens, budget.window // 4)

    def most_cleared(self, tokens: int, largest: int, budget: Budget) -> int:
        """Return the maximum gain from clearing results of this total size.

        Counted from the newest, the result that exceeds the protected tokens is cleared whole.
        """
        beyond = tokens - self.protected(budget)
        return min(tokens, beyond + largest) if beyond > 0 else 0


class _Zone(NamedTuple):
    """The messages from `start` on, whose results are kept."""

    start: int
    is_unseen_only: bool
    """Whether only what the model has not seen yet is protected."""


class ClearOldToolOutput:
    """Replace old tool results by a short note; the call and its id stay, so pairs stay valid.

    The model can get a result again by calling the tool again, so results are cleared before
    anything else. A result that is not old enough to be cleared may be shortened first.
    """

    name = "clear_old_tool_output"

    def __init__(self, policy: ClearOldToolOutputPolicy) -> None:
        self._policy = policy

    def __call__(self, conversation: Conversation, done: Clearing, pressure: Pressure) -> Clearing:
        """Return what to clear in addition to `done`: at least the minimum gain, or nothing."""
        if not self._policy.enabled:
            return Clearing()
        results = _CountedResults(conversation, pressure, self._policy.old_max_bytes)
        zone = self._zone(conversation, pressure)
        far, near = self._old(results.newest_first(done), zone, pressure.budget)
        cleared = results.gains(Clearing(results=far))
        shorter: dict[Place, int] = {}
        if pressure.excess > sum(cleared.values()) and not zone.is_unseen_only:
            shorter = results.gains(Clearing(shortened=near - done.shortened))
        min_gain = min(self._policy.minimum_tokens, pressure.budget.window // 8)
        if sum(cleared.values()) + sum(shorter.values()) < min_gain:
            return Clearing()
        return Clearing(results=frozenset(cleared), shortened=frozenset(shorter))

    def _zone(self, conversation: Conversation, pressure: Pressure) -> _Zone:
        """Return the newest protected turns that together are below the trigger.

        An agent's run is one turn of hundreds of steps. When that turn alone is over the trigger,
        only what the model has not seen yet is protected.
        """
        unseen = seen_until(conversation)
        turns = conversation.turns
        protected = turns[max(0, len(turns) - self._policy.protect_turns) :]
        for turn in protected:
            if sum(pressure.sizes[turn.start :]) < pressure.budget.trigger:
                return _Zone(min(turn.start, unseen), is_unseen_only=False)
        return _Zone(unseen, is_unseen_only=bool(protected))

    def _old(
        self, results: Iterable[tuple[ToolResult, int]], zone: _Zone, budget: Budget
    ) -> tuple[frozenset[Place], frozenset[Place]]:
        """Return the results before the zone: beyond the protected tokens, and within them."""
        policy = self._policy
        protect = policy.protected(budget)
        far: set[Place] = set()
        near: set[Place] = set()
        total = 0
        kept = policy.keep_results
        for result, tokens in results:
            total += tokens
            if result.name in policy.protected_tools:
                continue
            if kept <= 0 and result.index < zone.start:
                (far if total > protect else near).add(result.place)
            kept -= 1
        return frozenset(far), frozenset(near)


class _CountedResults:
    """The tool results of one conversation, with their tokens before and after a clearing."""

    def __init__(self, conversation: Conversation, pressure: Pressure, old_max_bytes: int) -> None:
        self._conversation = conversation
        self._results = tool_results(conversation)
        self._count = pressure.count
        self._old_max_bytes = old_max_bytes

    def newest_first(self, done: Clearing) -> Iterator[tuple[ToolResult, int]]:
        """Yield the results and their tokens, up to the newest one that is already cleared.

        Older results were decided together with that one.
        """
        for result in reversed(self._results):
            if result.place in done.results:
                return
            yield result, self._tokens(result)

    def gains(self, clearing: Clearing) -> dict[Place, int]:
        """Return the tokens saved at each place of a clearing, without places that save nothing."""
        after = clear(self._conversation, clearing, self._old_max_bytes)
        if after is self._conversation:
            return {}
        places = clearing.results | clearing.shortened
        shorter = self._shorter_in(after)
        return {
            old.place: gain
            for old, new in zip(self._results, tool_results(after), strict=True)
            if old.place in places
            and old.index in shorter
            and (gain := self._tokens(old) - self._tokens(new)) > 0
        }

    def _shorter_in(self, after: Conversation) -> set[int]:
        """Return the messages with less text: an embedded result may grow when it is escaped."""
        pairs = zip(self._conversation.messages, after.messages, strict=True)
        return {
            index
            for index, (old, new) in enumerate(pairs)
            if old.fields is not new.fields and _chars(new) < _chars(old)
        }

    def _tokens(self, result: ToolResult) -> int:
        return sum(map(self._count, result.texts))


def _chars(message: Message) -> int:
    return sum(len(text) for _, text in message.pieces())
