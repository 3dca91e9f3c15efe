"""What a summary is to be written of: the span, what stands before it, and how it is weighed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.checkpoint import index_of
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.summary.fold import ACKNOWLEDGEMENT, spoken_in
from chat_proxy.compaction.summary.marker import Returned, Sign, find_returned
from chat_proxy.compaction.summary.plan import Plan, carried, plan, plan_by_turns, tail_tokens
from chat_proxy.proxy.routing.summary_policy import ledger_tokens, verbatim_tokens
from chat_proxy.proxy.session.history_hashes import HistoryHashes
from chat_proxy.proxy.session.request import CompactionRequest
from chat_proxy.proxy.session.session import AppliedCheckpoint
from chat_proxy.proxy.sizing.measure import TokenCount
from chat_proxy.proxy.sizing.request_counter import RequestCounter

LEAST_SHARE = 0.1


@dataclass(frozen=True)
class SummaryDraft:
    """A conversation that needs a summary; best looked at in a thread, as it is weighed anew."""

    compaction: CompactionRequest
    budget: Budget
    request_counter: RequestCounter
    history: HistoryHashes
    applied: AppliedCheckpoint
    clearing: Clearing
    """All that is cleared once the summary is there."""
    cleared: Conversation
    """The unfolded conversation without it."""
    sign: Sign
    keep_turns: int | None = None
    """How many turns a compaction by hand leaves alone, whatever their size."""
    wish: str = ""
    """What the user wants of the summary."""
    is_ahead: bool = True
    """Whether the summary may be one ahead of the trigger, or goes on with one at the trigger."""

    @cached_property
    def returned(self) -> Returned | None:
        """A summary of ours that the client sent back as the first message of its own.

        Behind other messages it stands for none of them: there it is only quoted.
        """
        found = find_returned(self.cleared, self.sign)
        return found if found and found.index == self.cleared.instructions else None

    @cached_property
    def start(self) -> int:
        """Where the messages begin that no summary stands for."""
        start = self.applied.start
        if self.returned is None:
            return start
        behind = self.returned.index + 1
        messages = self.cleared.messages
        if behind < len(messages) and messages[behind].content == ACKNOWLEDGEMENT:
            behind += 1
        return max(start, behind)

    @property
    def own_words_start(self) -> int:
        """Where the client's own messages begin, those of an earlier summary included."""
        return self.start if self.returned is not None else self.cleared.instructions

    @property
    def spoken(self) -> list[str]:
        """The user's words that a summary which came back has kept."""
        return spoken_in(self.returned.text) if self.returned is not None else []

    @property
    def previous(self) -> str:
        """The summary that is to be brought up to date, if there is one."""
        checkpoint = self.applied.checkpoint
        if checkpoint is not None and checkpoint.summary:
            return checkpoint.summary
        return self.returned.text if self.returned is not None else ""

    @cached_property
    def sent_sizes(self) -> list[int]:
        """The tokens of each unfolded message as it is sent today; 0 where a summary stands."""
        visible = self.applied.visible
        sizes = self.request_counter.count_conversation_in_thread(visible).sizes
        by_origin = dict(zip(visible.origins, sizes, strict=True))
        return [by_origin.get(origin, 0) for origin in self.cleared.origins]

    @property
    def growth(self) -> int:
        """What is added until the trigger, where a summary is prepared ahead of it."""
        return max(0, self.budget.trigger - self._sent_tokens) if self.is_ahead else 0

    @cached_property
    def plan(self) -> Plan | None:
        """The span that a summary would win most by, nothing if it would win too little."""
        if self.keep_turns is not None:
            return plan_by_turns(self.cleared, self.keep_turns, start=self.start)
        found = plan(
            self.cleared,
            self._sizes,
            self.budget,
            start=self.start,
            fixed=self._fixed,
            tail=tail_tokens(self.budget, self._fixed + self._beside, self.growth),
        )
        wins = found and self.span_tokens(found) >= LEAST_SHARE * self.budget.trigger
        return found if wins else None

    def won(self, its: Plan) -> int:
        """Return about what a plan takes off the prompt; few summaries are as long as they may."""
        stays = [*carried(self.cleared, its.end), *range(its.end, len(self.cleared))]
        left: int = self._fixed + self._beside + sum(self._sizes[index] for index in stays)
        return self._sent_tokens - left + self._summary_tokens // 2

    @property
    def _summary_tokens(self) -> int:
        return self.compaction.policy.summary.summary_tokens(self.budget)

    @cached_property
    def _sent_tokens(self) -> int:
        return self.request_counter.count_conversation_in_thread(self.applied.visible).tokens

    @cached_property
    def _weight(self) -> TokenCount:
        return self.request_counter.count_conversation_in_thread(self.cleared)

    @cached_property
    def _sizes(self) -> list[int]:
        return self._weight.sizes

    @cached_property
    def _fixed(self) -> int:
        """All that no plan can remove: instructions, tools, what a summary may take."""
        sizes = self._sizes[self.cleared.instructions :]
        return self._weight.tokens - sum(sizes) + self._summary_tokens

    @cached_property
    def _beside(self) -> int:
        """What a fold may keep beside its summary: lost facts and the user's own words."""
        turn = self.cleared.current_turn
        earlier = range(self.own_words_start, turn.start if turn else 0)
        messages = self.cleared.messages
        words = sum(self._sizes[index] for index in earlier if messages[index].is_user)
        return ledger_tokens(self.budget) + min(words, verbatim_tokens(self.budget))

    def span_tokens(self, its: Plan) -> int:
        """Return the tokens that a plan's span has as it is sent today."""
        return sum(self.sent_sizes[its.start : its.end])

    def tokens_behind(self, origin: int, its: Plan) -> int:
        """Return the tokens of a plan's span that stand behind so many of the client's messages."""
        return sum(self.sent_sizes[index_of(self.cleared, origin) : its.end])

    def originals(self, start: int, end: int) -> list[Message]:
        """Return messages as the client sent them, before anything in them was cut or cleared."""
        sent = self.compaction.conversation.messages
        origins = self.applied.unfolded.origins[start:end]
        return [sent[origin] for origin in origins if origin is not None]

    def boundary(self, its: Plan) -> int:
        """Return how many of the client's messages a plan's summary stands for."""
        origins: Sequence[int | None] = self.cleared.origins
        origin = origins[its.end] if its.end < len(origins) else None
        return len(self.compaction.conversation) if origin is None else origin

    def seen(self, its: Plan) -> Conversation:
        """Return what the upstream has seen up to the end of the span, as it was sent."""
        visible = self.applied.visible
        boundary = self.boundary(its)
        return visible.only(
            [
                index
                for index, origin in enumerate(visible.origins)
                if origin is None or origin < boundary
            ]
        )
