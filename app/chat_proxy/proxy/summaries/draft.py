"""The input of a summary: the span to summarise, what precedes it, and its token counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.checkpoint import Checkpoint, index_of
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.summary.fold import (
    ACKNOWLEDGEMENT,
    folded_text,
    spoken_in,
    verbatim_user_texts,
)
from chat_proxy.compaction.summary.ledger import ledger, with_ledger
from chat_proxy.compaction.summary.marker import Returned, Sign, add_marker, find_returned
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
    """A conversation that needs a summary.

    Its properties count the conversation's tokens again: read them in a thread.
    """

    compaction: CompactionRequest
    budget: Budget
    request_counter: RequestCounter
    history: HistoryHashes
    applied: AppliedCheckpoint
    clearing: Clearing
    """Everything that is cleared once the summary is applied."""
    cleared: Conversation
    """The unfolded conversation with `clearing` applied."""
    sign: Sign
    keep_turns: int | None = None
    """How many of the last turns a manual compaction keeps unchanged, whatever their size."""
    wish: str = ""
    """The user's instruction for the summary."""
    is_ahead: bool = True
    """Whether the summary may be prepared before the trigger; not if it continues a new one."""

    @cached_property
    def returned(self) -> Returned | None:
        """A summary of ours that the client sent back as its first message.

        After other messages it replaces none of them: there it is only quoted.
        """
        found = find_returned(self.cleared, self.sign)
        return found if found and found.index == self.cleared.instructions else None

    @cached_property
    def start(self) -> int:
        """The index of the first message that no summary covers."""
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
        """The index of the first message of the client's own, folded ones included."""
        return self.start if self.returned is not None else self.cleared.instructions

    @property
    def spoken(self) -> list[str]:
        """The user texts quoted verbatim in a summary that the client sent back."""
        return spoken_in(self.returned.text) if self.returned is not None else []

    @property
    def previous(self) -> str:
        """The earlier summary that the new one updates, empty if there is none."""
        checkpoint = self.applied.checkpoint
        if checkpoint is not None and checkpoint.summary:
            return checkpoint.summary
        return self.returned.text if self.returned is not None else ""

    @cached_property
    def sent_sizes(self) -> list[int]:
        """The tokens of each unfolded message as it is sent now; 0 if a summary replaces it."""
        visible = self.applied.visible
        sizes = self.request_counter.count_conversation_in_thread(visible).sizes
        by_origin = dict(zip(visible.origins, sizes, strict=True))
        return [by_origin.get(origin, 0) for origin in self.cleared.origins]

    @property
    def growth(self) -> int:
        """The tokens that are added until the trigger, if the summary is prepared before it."""
        return max(0, self.budget.trigger - self._sent_tokens) if self.is_ahead else 0

    def find_plan(self) -> Plan | None:
        """Return the plan, which the first call computes: call it in a thread."""
        return self.plan

    @cached_property
    def plan(self) -> Plan | None:
        """The span whose summary saves the most tokens, None if it would save too few."""
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
        """Return roughly the tokens that a plan saves.

        Half of the summary's maximum is assumed: few summaries are as long as they may be.
        """
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
        """The tokens that no plan can remove: instructions, tools, the maximum of a summary."""
        sizes = self._sizes[self.cleared.instructions :]
        return self._weight.tokens - sum(sizes) + self._summary_tokens

    @cached_property
    def _beside(self) -> int:
        """The maximum that a fold keeps beside its summary: lost facts and the user's own words."""
        turn = self.cleared.current_turn
        earlier = range(self.own_words_start, turn.start if turn else 0)
        messages = self.cleared.messages
        words = sum(self._sizes[index] for index in earlier if messages[index].is_user)
        return ledger_tokens(self.budget) + min(words, verbatim_tokens(self.budget))

    def span_tokens(self, its: Plan) -> int:
        """Return the tokens of a plan's span as it is sent now."""
        return sum(self.sent_sizes[its.start : its.end])

    def tokens_behind(self, origin: int, its: Plan) -> int:
        """Return the tokens of a plan's span after the client's first `origin` messages."""
        return sum(self.sent_sizes[index_of(self.cleared, origin) : its.end])

    def originals(self, start: int, end: int) -> list[Message]:
        """Return messages as the client sent them, before anything was cut or cleared in them."""
        sent = self.compaction.conversation.messages
        origins = self.applied.unfolded.origins[start:end]
        return [sent[origin] for origin in origins if origin is not None]

    def boundary(self, its: Plan) -> int:
        """Return how many of the client's messages a plan's summary covers."""
        origins: Sequence[int | None] = self.cleared.origins
        origin = origins[its.end] if its.end < len(origins) else None
        return len(self.compaction.conversation) if origin is None else origin

    def seen(self, its: Plan) -> Conversation:
        """Return the prompt up to the end of the span, as it was sent to the upstream."""
        visible = self.applied.visible
        boundary = self.boundary(its)
        return visible.only(
            [
                index
                for index, origin in enumerate(visible.origins)
                if origin is None or origin < boundary
            ]
        )


def checkpoint_of(draft: SummaryDraft, plan: Plan, summary: str, source: str) -> Checkpoint:
    """Return the checkpoint of a summary, with the facts it lost and the user's own words."""
    text = framed(draft, plan, summary)
    if source:
        text = f"{text}\n{source}"
    boundary = draft.boundary(plan)
    return Checkpoint(
        draft.history.seam_from(max(boundary, draft.clearing.until)),
        draft.clearing,
        tokens=0,
        folded_until=boundary,
        text=add_marker(text, boundary, draft.sign),
        summary=summary,
    )


def framed(draft: SummaryDraft, plan: Plan, summary: str) -> str:
    """Return the text that replaces the folded messages."""
    conversation = draft.applied.unfolded
    start, count = draft.own_words_start, draft.request_counter.count
    remaining = verbatim_tokens(draft.budget)
    words = verbatim_user_texts(conversation, start, plan.end, remaining, count)
    remaining -= sum(map(count, words))
    earlier = Conversation([Message({"role": "user", "content": text}) for text in draft.spoken])
    words = [*verbatim_user_texts(earlier, 0, len(earlier), remaining, count), *words]
    known = "\n".join([summary, *words])
    messages = [*earlier.messages, *draft.originals(start, plan.end)]
    lost = ledger(messages, known, ledger_tokens(draft.budget), count)
    return folded_text(with_ledger(summary, lost), words)
