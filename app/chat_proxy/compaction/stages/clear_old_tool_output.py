"""The stage that decides which old tool results a conversation can do without."""

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
    """How much tool output stays, and how much must be won for the cache to be broken."""

    enabled: bool
    protect_tokens: int
    """The newest tool output that stays; no more than a quarter of the window."""
    minimum_tokens: int
    """What must be won at least; no more than an eighth of the window."""
    protect_turns: int
    """Turns whose results stay, the current one included, while they are below the trigger."""
    protected_tools: frozenset[str]
    keep_results: int
    """The newest results that stay, whatever their size."""
    old_max_bytes: int
    """What an old result is shortened to before it goes."""

    def protected(self, budget: Budget) -> int:
        """Return how many tokens of the newest results stay in this window."""
        return min(self.protect_tokens, budget.window // 4)

    def most_cleared(self, tokens: int, largest: int, budget: Budget) -> int:
        """Return what clearing can win at most of results of this size altogether.

        All but the newest go, up to and with the one that exceeds what is protected.
        """
        beyond = tokens - self.protected(budget)
        return min(tokens, beyond + largest) if beyond > 0 else 0


class _Zone(NamedTuple):
    """The messages from `start` on, whose results stay."""

    start: int
    is_new_only: bool
    """Whether it was narrowed to what the model has not seen yet."""


class ClearOldToolOutput:
    """Give up old tool results for a short note; the call and its id stay, so pairs hold.

    What a result holds can be had again by calling the tool again, so it goes before anything
    else. One that is not old enough to go may be shortened first.
    """

    name = "clear_old_tool_output"

    def __init__(self, policy: ClearOldToolOutputPolicy) -> None:
        self._policy = policy

    def __call__(self, conversation: Conversation, done: Clearing, pressure: Pressure) -> Clearing:
        """Decide what goes beyond what is gone already: much at once, or nothing."""
        if not self._policy.enabled:
            return Clearing()
        scale = _Scale(conversation, pressure, self._policy.old_max_bytes)
        zone = self._zone(conversation, pressure)
        far, near = self._old(scale.newest_first(done), zone, pressure.budget)
        cleared = scale.gains(Clearing(results=far))
        shorter: dict[Place, int] = {}
        if pressure.excess > sum(cleared.values()) and not zone.is_new_only:
            shorter = scale.gains(Clearing(shortened=near - done.shortened))
        least = min(self._policy.minimum_tokens, pressure.budget.window // 8)
        if sum(cleared.values()) + sum(shorter.values()) < least:
            return Clearing()
        return Clearing(results=frozenset(cleared), shortened=frozenset(shorter))

    def _zone(self, conversation: Conversation, pressure: Pressure) -> _Zone:
        """Return the newest turns, as many of them as are below the trigger together.

        An agent's run is one turn of hundreds of steps. When it alone is over the trigger, only
        what the model has not seen yet is left of the zone.
        """
        new = seen_until(conversation)
        turns = conversation.turns
        protected = turns[max(0, len(turns) - self._policy.protect_turns) :]
        for turn in protected:
            if sum(pressure.sizes[turn.start :]) < pressure.budget.trigger:
                return _Zone(min(turn.start, new), is_new_only=False)
        return _Zone(new, is_new_only=bool(protected))

    def _old(
        self, results: Iterable[tuple[ToolResult, int]], zone: _Zone, budget: Budget
    ) -> tuple[frozenset[Place], frozenset[Place]]:
        """Return the results before the zone: those beyond the newest tokens, and those within."""
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


class _Scale:
    """Weighs the results of one conversation, as they are and as they would become."""

    def __init__(self, conversation: Conversation, pressure: Pressure, old_max_bytes: int) -> None:
        self._conversation = conversation
        self._results = tool_results(conversation)
        self._count = pressure.count
        self._old_max_bytes = old_max_bytes

    def newest_first(self, done: Clearing) -> Iterator[tuple[ToolResult, int]]:
        """Yield the results and their tokens; what is older than a cleared one was judged then."""
        for result in reversed(self._results):
            if result.place in done.results:
                return
            yield result, self._tokens(result)

    def gains(self, clearing: Clearing) -> dict[Place, int]:
        """Return the tokens won at each place of a clearing, without those that win nothing."""
        after = clear(self._conversation, clearing, self._old_max_bytes)
        if after is self._conversation:
            return {}
        places = clearing.results | clearing.shortened
        shorter = self._shorter_in(after)
        return {
            old.place: won
            for old, new in zip(self._results, tool_results(after), strict=True)
            if old.place in places
            and old.index in shorter
            and (won := self._tokens(old) - self._tokens(new)) > 0
        }

    def _shorter_in(self, after: Conversation) -> set[int]:
        """Return the messages that have less text: a folded one may grow when it is escaped."""
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
