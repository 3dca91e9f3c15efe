"""Obtain the summary of a request's older messages: prepare it in the background or wait for it."""

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
from chat_proxy.proxy.summaries.draft import SummaryDraft, checkpoint_of, framed
from chat_proxy.proxy.summaries.jobs import PREPARED, SummaryJob, SummaryTask
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.proxy.summaries.write import kept_originals, write_summary

MOST_ROUNDS = 4
LEAST_BETTER = 1 / 6
"""The share of the trigger by which a new summary must be better than a prepared one."""
WOULD_STAND_HERE = "(A summary would stand here.)"


class SummarySearch:
    """The search for a summary for one request."""

    def __init__(
        self,
        session: CompactionSession,
        applied: AppliedCheckpoint,
        clearing: Clearing,
        services: SummaryServices,
        *,
        is_ahead: bool = True,
    ) -> None:
        self._session = session
        self._services = services
        self._applied = applied
        self._clearing = clearing
        self._is_ahead = is_ahead
        self._refused = 0
        """How many messages a prepared summary covers that saves too little by now."""
        self.has_failed = False
        """Whether a summary was needed and could not be written."""
        self.may_wait = False
        """Whether the request is sent without a summary for now."""

    def prepare(self, tokens: int) -> None:
        """Start writing a summary in the background, so that it is ready at the trigger."""
        session = self._session
        key = (session.compaction.scope, session.history.links[self._turn_start()])
        if not session.compaction.is_dry_run and self._under_way() is None:
            self._services.jobs.check_ahead(key, tokens, partial(self._prepare, tokens))

    async def _prepare(self, tokens: int) -> bool:
        """Start writing a summary if one is needed at the trigger; return whether it is."""
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
        search = SummarySearch(session, self._applied, relieved.clearing, self._services)
        if known and not await search.is_much_better(known):
            return True
        return await search.begin(tokens) is not None

    async def is_much_better(self, known: int) -> bool:
        """Return whether a new summary would cover much more than the prepared one."""
        plan = await self._plan()
        self._refused = known
        least = self._session.budget.trigger * LEAST_BETTER
        return plan is not None and self._draft.tokens_behind(known, plan) >= least

    async def fold(self, outcome: CompactionResult) -> CompactionResult | None:
        """Return the request with a summary, unchanged if that can wait, or None without one.

        A request far over its window needs several summaries, each of as much as the model takes.
        So does a request whose summary model takes little at a time, because otherwise the next
        summaries would follow soon.
        """
        session = self._session
        if session.compaction.is_dry_run:
            return await self._would_fold(outcome)
        prepared = await session.find(PREPARED)
        best = outcome
        search = self
        if prepared is not None and self._is_newer(prepared):
            least = session.budget.least_growth if self._has_time(best.token_count.tokens) else 0
            best, search = await self.adopted(prepared, "reused", best, least)
            self._refused = prepared.folded_until if best is outcome else 0
        enough = session.budget.trigger
        for _ in range(MOST_ROUNDS):
            if best.token_count.tokens < enough:
                break
            checkpoint = await search.written(best)
            if checkpoint is None:
                break
            is_all = await search.has_all(checkpoint)
            enough = session.budget.trigger if is_all else session.budget.target
            smaller, search = await search.adopted(checkpoint, "built", best)
            if smaller is best:
                break
            best = smaller
        self.has_failed = search.has_failed
        if best.token_count.tokens > session.budget.limit:
            best = await search.by_force(best)
        return None if best is outcome and not search.may_wait else best

    async def written(self, outcome: CompactionResult) -> Checkpoint | None:
        """Wait for a summary that covers more than the last, unless the request can go without."""
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
        checkpoint = await self._services.jobs.wait(task)
        if checkpoint is None or not self._is_newer(checkpoint):
            self.has_failed = True
            return None
        return checkpoint

    async def adopted(
        self, checkpoint: Checkpoint, label: str, best: CompactionResult, least: int = 0
    ) -> tuple[CompactionResult, "SummarySearch"]:
        """Apply a checkpoint if it saves enough; return the result and the next search."""
        merged = replace(checkpoint, clearing=checkpoint.clearing | self._applied.clearing)
        until = max(merged.until, merged.clearing.until)
        merged = replace(merged, until=self._session.history.seam_from(until))
        outcome = await self._session.adopted(merged, label, best.token_count.tokens - least)
        if outcome is None:
            return best, self
        applied = await self._session.apply_checkpoint(merged)
        search = SummarySearch(
            self._session, applied, merged.clearing, self._services, is_ahead=False
        )
        return outcome, search

    async def has_all(self, checkpoint: Checkpoint) -> bool:
        """Return whether a summary covers the whole planned span, or only its beginning."""
        plan = await self._plan()
        return plan is None or checkpoint.folded_until >= self._draft.boundary(plan)

    def _is_newer(self, checkpoint: Checkpoint | None) -> bool:
        return checkpoint is not None and checkpoint.folded_until > self._applied.folded_until

    def _under_way(self) -> SummaryTask | None:
        session = self._session
        links = frozenset(session.history.links)
        return self._services.jobs.under_way(session.compaction.scope, links)

    async def begin(self, tokens: int) -> SummaryTask | None:
        """Start writing a summary, unless there is nothing to gain or one failed just now.

        Before the trigger, a summary that saves little is not worth it: the turn may end soon.
        """
        session, jobs = self._session, self._services.jobs
        if not jobs.may_try(session.compaction.scope, session.history.beginning, tokens):
            self.has_failed = True
            return None
        plan = await self._plan()
        if plan is None or (tokens < session.budget.late and self._wins_little(plan)):
            return None
        job = job_of(session, self._draft, plan, tokens, self._services)
        if self._refused and not self._wins_little(plan):
            job = replace(job, start=self._refused)
        return jobs.begin(job)

    async def _is_put_off(self, tokens: int) -> bool:
        """Return whether a later summary is better, and the request can wait for it."""
        plan = await self._plan()
        wins_little = plan is not None and self._wins_little(plan)
        return self._has_time(tokens) and (wins_little or self._refused > 0)

    def _has_time(self, tokens: int) -> bool:
        """Return whether a prompt of this size can wait for a better summary."""
        return tokens <= self._session.budget.patience

    def _wins_little(self, plan: Plan) -> bool:
        """Return whether a summary saves so little that another would follow soon."""
        return self._draft.won(plan) < self._session.budget.least_growth

    def _turn_start(self) -> int:
        turn = self._session.compaction.conversation.current_turn
        return turn.start if turn else 0

    @cached_property
    def _draft(self) -> SummaryDraft:
        draft = draft_of(self._session, self._applied, self._clearing)
        return draft if self._is_ahead else replace(draft, is_ahead=False)

    async def _plan(self) -> Plan | None:
        return await asyncio.to_thread(self._draft.find_plan)

    async def by_force(self, best: CompactionResult) -> CompactionResult:
        """Fold with a digest that no model writes: the last resort before an overflow."""
        draft, plan = self._draft, await self._plan()
        if plan is None:
            return best
        source = await kept_originals(draft, plan, self._services.originals)
        checkpoint = await asyncio.to_thread(digested, draft, plan, source)
        return (await self.adopted(checkpoint, "failed-open", best))[0]

    async def _would_fold(self, outcome: CompactionResult) -> CompactionResult | None:
        """Return the request as it would be with a summary, without asking a model (dry run)."""
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
    """Return the draft of a summary for a conversation with a checkpoint applied."""
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


def job_of(
    session: CompactionSession,
    draft: SummaryDraft,
    plan: Plan,
    tokens: int,
    services: SummaryServices,
) -> SummaryJob:
    """Return the job that summarises a planned span; `tokens` is the prompt size that needs it."""
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
        partial(write_summary, draft, plan, services),
    )


def digested(draft: SummaryDraft, plan: Plan, source: str) -> Checkpoint:
    """Return a checkpoint with a digest in place of a summary: no model is asked."""
    messages = draft.applied.unfolded.messages[plan.start : plan.end]
    room = draft.compaction.policy.summary.summary_tokens(draft.budget)
    summary = digest(messages, room, draft.request_counter.count, draft.previous)
    return checkpoint_of(draft, plan, summary, source)
