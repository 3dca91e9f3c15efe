"""A summary in the place of older messages: prepared behind the scenes, or waited for."""

import asyncio
from dataclasses import replace
from functools import cached_property, partial

from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.pipeline import Step
from chat_proxy.compaction.summary.digest import digest
from chat_proxy.compaction.summary.fold import fold
from chat_proxy.compaction.summary.plan import Plan
from chat_proxy.proxy.session.request import CompactionResult
from chat_proxy.proxy.session.session import SUMMARY, AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.summaries.draft import SummaryDraft
from chat_proxy.proxy.summaries.jobs import PREPARED, SummaryJob, SummaryTask
from chat_proxy.proxy.summaries.write import checkpoint_of, framed, kept_originals, write_summary

MOST_ROUNDS = 4
LEAST_BETTER = 1 / 6
"""The share of the trigger by which a summary must be better than one that is prepared."""
WOULD_STAND_HERE = "(A summary would stand here.)"


class SummarySearch:
    """Gets a summary for one request."""

    def __init__(
        self,
        session: CompactionSession,
        applied: AppliedCheckpoint,
        clearing: Clearing,
        *,
        is_ahead: bool = True,
    ) -> None:
        self._session = session
        self._applied = applied
        self._clearing = clearing
        self._is_ahead = is_ahead
        self._refused = 0
        """How many messages a prepared summary stands for that would win too little by now."""
        self.has_failed = False
        """Whether a summary was wanted and could not be had."""
        self.may_wait = False
        """Whether the request goes on without one for now."""

    def prepare(self, tokens: int) -> None:
        """Have a summary written while the request goes on, so that it is there at the trigger."""
        session = self._session
        summaries = session.services.summaries
        key = (session.compaction.scope, session.history.links[self._turn_start()])
        if not session.compaction.is_dry_run and self._under_way() is None:
            summaries.look_ahead(key, tokens, partial(self._prepare, tokens))

    async def _prepare(self, tokens: int) -> bool:
        """Begin to write a summary if one is needed at the trigger; return whether it is."""
        session = self._session
        prepared = await session.find(PREPARED)
        known = prepared.folded_until if prepared and self._is_newer(prepared) else 0
        if known > self._turn_start():
            return True
        relieved = await asyncio.to_thread(
            session.compaction.policy.pipeline.relieve,
            self._applied.visible,
            self._clearing,
            partial(session.request_counter.pressure_on, budget=session.budget),
        )
        token_count = await session.request_counter.count_conversation(relieved.conversation)
        if token_count.tokens <= session.budget.target:
            return False
        folding = SummarySearch(session, self._applied, relieved.clearing)
        if known and not await folding.is_much_better(known):
            return True
        return await folding.begin(tokens) is not None

    async def is_much_better(self, known: int) -> bool:
        """Tell whether a summary reaches much further by now than one that is prepared."""
        plan = await self._plan()
        self._refused = known
        least = self._session.budget.trigger * LEAST_BETTER
        return plan is not None and self._draft.tokens_behind(known, plan) >= least

    async def fold(self, outcome: CompactionResult) -> CompactionResult | None:
        """Return the request with a summary, or as it is while that may wait, or None without.

        A request far over its window needs several summaries, each of as much as the model takes;
        so does any whose summary model takes little at a time, or the next ones would follow soon.
        """
        session = self._session
        if session.compaction.is_dry_run:
            return await self._would_fold(outcome)
        prepared = await session.find(PREPARED)
        best = outcome
        folding = self
        if prepared is not None and self._is_newer(prepared):
            least = session.budget.least_growth if self._has_time(best.token_count.tokens) else 0
            best, folding = await self.adopted(prepared, "reused", best, least)
            self._refused = prepared.folded_until if best is outcome else 0
        enough = session.budget.trigger
        for _ in range(MOST_ROUNDS):
            if best.token_count.tokens < enough:
                break
            checkpoint = await folding.written(best)
            if checkpoint is None:
                break
            is_all = await folding.has_all(checkpoint)
            enough = session.budget.trigger if is_all else session.budget.target
            smaller, folding = await folding.adopted(checkpoint, "built", best)
            if smaller is best:
                break
            best = smaller
        self.has_failed = folding.has_failed
        if best.token_count.tokens > session.budget.limit:
            best = await folding.by_force(best)
        return None if best is outcome and not folding.may_wait else best

    async def written(self, outcome: CompactionResult) -> Checkpoint | None:
        """Wait for a summary that reaches further than the last, unless the request can go on."""
        session = self._session
        tokens = outcome.token_count.tokens
        task = self._under_way() or await self.begin(tokens)
        self.may_wait = await self._is_put_off(tokens) or (
            task is not None
            and tokens <= session.budget.limit
            and not session.compaction.policy.summary.waits_at_trigger
        )
        if task is None or self.may_wait:
            return None
        checkpoint = await session.services.summaries.wait(task)
        if checkpoint is None or not self._is_newer(checkpoint):
            self.has_failed = True
            return None
        return checkpoint

    async def adopted(
        self, checkpoint: Checkpoint, label: str, best: CompactionResult, least: int = 0
    ) -> tuple[CompactionResult, "SummarySearch"]:
        """Return the request by a new checkpoint if that wins enough, and how to go on."""
        merged = replace(checkpoint, clearing=checkpoint.clearing | self._applied.clearing)
        until = max(merged.until, merged.clearing.until)
        merged = replace(merged, until=self._session.history.seam_from(until))
        outcome = await self._session.adopted(merged, label, best.token_count.tokens - least)
        if outcome is None:
            return best, self
        applied = await self._session.apply_checkpoint(merged)
        return outcome, SummarySearch(self._session, applied, merged.clearing, is_ahead=False)

    async def has_all(self, checkpoint: Checkpoint) -> bool:
        """Tell whether a summary stands for all that was planned, or only for its beginning."""
        plan = await self._plan()
        return plan is None or checkpoint.folded_until >= self._draft.boundary(plan)

    def _is_newer(self, checkpoint: Checkpoint | None) -> bool:
        return checkpoint is not None and checkpoint.folded_until > self._applied.folded_until

    def _under_way(self) -> SummaryTask | None:
        session = self._session
        links = frozenset(session.history.links)
        return session.services.summaries.under_way(session.compaction.scope, links)

    async def begin(self, tokens: int) -> SummaryTask | None:
        """Begin to write a summary, unless there is nothing to win or it failed just now.

        Ahead of the trigger one that wins little is not worth it yet: the turn may soon be over.
        """
        session, summaries = self._session, self._session.services.summaries
        if not summaries.may_try(session.compaction.scope, session.history.beginning, tokens):
            self.has_failed = True
            return None
        plan = await self._plan()
        if plan is None or (tokens < session.budget.late and self._wins_little(plan)):
            return None
        job = job_of(session, self._draft, plan, tokens)
        if self._refused and not self._wins_little(plan):
            job = replace(job, start=self._refused)
        return summaries.begin(job)

    async def _is_put_off(self, tokens: int) -> bool:
        """Tell whether a later summary is better than this one, and the request can do without."""
        plan = await self._plan()
        wins_little = plan is not None and self._wins_little(plan)
        return self._has_time(tokens) and (wins_little or self._refused > 0)

    def _has_time(self, tokens: int) -> bool:
        """Tell whether a prompt can wait for a better summary."""
        return tokens <= self._session.budget.patience

    def _wins_little(self, plan: Plan) -> bool:
        """Tell whether another summary would follow soon, so that a later one is better."""
        return self._draft.won(plan) < self._session.budget.least_growth

    def _turn_start(self) -> int:
        turn = self._session.compaction.conversation.current_turn
        return turn.start if turn else 0

    @cached_property
    def _draft(self) -> SummaryDraft:
        draft = draft_of(self._session, self._applied, self._clearing)
        return draft if self._is_ahead else replace(draft, is_ahead=False)

    async def _plan(self) -> Plan | None:
        return await asyncio.to_thread(getattr, self._draft, "plan")

    async def by_force(self, best: CompactionResult) -> CompactionResult:
        """Fold without a model, the last thing before an overflow."""
        draft, plan = self._draft, await self._plan()
        if plan is None:
            return best
        source = await kept_originals(draft, plan, self._session.services)
        checkpoint = await asyncio.to_thread(digested, draft, plan, source)
        return (await self.adopted(checkpoint, "failed-open", best))[0]

    async def _would_fold(self, outcome: CompactionResult) -> CompactionResult | None:
        """Return what the request would be with a summary, which nobody is asked for now."""
        draft, plan = self._draft, await self._plan()
        if plan is None:
            return None
        if await self._is_put_off(outcome.token_count.tokens):
            return outcome
        text = await asyncio.to_thread(framed, draft, plan, WOULD_STAND_HERE)
        folded = fold(draft.cleared, plan.end, text)
        token_count = await self._session.request_counter.count_conversation(folded)
        summary = draft.compaction.policy.summary.summary_tokens(draft.budget)
        return outcome._replace(
            conversation=folded,
            token_count=token_count._replace(tokens=token_count.tokens + summary),
            steps=(*self._session.trimmed.steps, Step(SUMMARY, folded)),
            label="built",
            is_break=True,
        )


def draft_of(
    session: CompactionSession, applied: AppliedCheckpoint, clearing: Clearing
) -> SummaryDraft:
    """Return what a summary of a conversation that stands so is written of."""
    steps = session.compaction.policy.pipeline.repeat(applied.unfolded, clearing)
    cleared = steps[-1].conversation if steps else applied.unfolded
    return SummaryDraft(
        session.compaction,
        session.budget,
        session.request_counter,
        session.history,
        applied,
        clearing,
        cleared,
        session.sign,
    )


def job_of(session: CompactionSession, draft: SummaryDraft, plan: Plan, tokens: int) -> SummaryJob:
    """Return the summary of a planned span as a job, needed at so many tokens."""
    history = session.history
    boundary = history.seam_from(max(draft.boundary(plan), draft.clearing.until))
    return SummaryJob(
        session.compaction.scope,
        history.beginning,
        history.link_at(boundary),
        draft.applied.folded_until,
        tokens,
        session.compaction.policy.summary.timeout_seconds,
        history,
        partial(write_summary, draft, plan, session.services),
    )


def digested(draft: SummaryDraft, plan: Plan, source: str) -> Checkpoint:
    """Return a checkpoint with a summary that no model wrote."""
    messages = draft.applied.unfolded.messages[plan.start : plan.end]
    room = draft.compaction.policy.summary.summary_tokens(draft.budget)
    summary = digest(messages, room, draft.request_counter.count, draft.previous)
    return checkpoint_of(draft, plan, summary, source)
