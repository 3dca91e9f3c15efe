"""Compact a request that is over its trigger: plan, obtain a summary, carry the plan out."""

import asyncio
import time
from dataclasses import replace
from typing import NamedTuple

from chat_proxy.compaction.budget import LEAST_GAIN, REQUESTS_TO_PREPARE
from chat_proxy.compaction.checkpoint import Checkpoint, index_of
from chat_proxy.compaction.planner.forms import NO_FOLD, FoldOption, Goal, Planner
from chat_proxy.compaction.planner.plan import Plan
from chat_proxy.compaction.planner.report import report_of
from chat_proxy.compaction.planner.view import View
from chat_proxy.proxy.compacting.adopt import Adoption, adopt, write_fold
from chat_proxy.proxy.compacting.open_session import goal_of, view_of
from chat_proxy.proxy.compacting.prepare import prepare_summary, start_for
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.session.request import CompactionResult, unchanged_result
from chat_proxy.proxy.session.session import AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.summaries.failure import SummaryFailed
from chat_proxy.proxy.summaries.jobs import SummaryTask
from chat_proxy.proxy.summaries.obtain import ready_summary, running_summary

MAX_TRIES = 3
ONLY_SUPERSEDED = NO_FOLD
WITHOUT_FOLD = FoldOption(may_age=True)
WITH_NOTES = FoldOption(is_allowed=True)


class Obtained(NamedTuple):
    """The summary for a compaction, if there is one, and why a model failed to write it."""

    summary: Checkpoint | None = None
    label: str = "built"
    failure: SummaryFailed | None = None

    @property
    def reason(self) -> str:
        """Why there is no summary, one sentence; empty if none was needed."""
        return f"No summary was written: {self.failure.sentence}" if self.failure else ""


async def compact(
    session: CompactionSession,
    applied: AppliedCheckpoint,
    outcome: CompactionResult,
    services: CompactionServices,
) -> CompactionResult:
    """Return the request in the first form that reaches its target, or at least fits.

    While the prompt fits, nobody waits: a summary that is not ready is written in the background.
    """
    view = await view_of(session, applied)
    tokens = outcome.token_count.tokens
    if tokens < view.trigger and tokens <= session.budget.limit:
        if tokens >= view.trigger - REQUESTS_TO_PREPARE * view.pace:
            await prepare_summary(session, applied, tokens, services.summaries)
        return outcome
    return await Compaction(session, applied, outcome, view, goal_of(view), services).run()


async def compact_to_fit(
    session: CompactionSession,
    applied: AppliedCheckpoint,
    outcome: CompactionResult,
    goal: Goal,
    services: CompactionServices,
) -> CompactionResult:
    """Return the request in the first form of at most `goal.limit` tokens, if there is one."""
    view = await view_of(session, applied)
    return await Compaction(session, applied, outcome, view, goal, services).run()


async def compact_to_smallest(
    session: CompactionSession,
    applied: AppliedCheckpoint,
    outcome: CompactionResult,
    services: CompactionServices,
) -> CompactionResult:
    """Return the request in its smallest form."""
    view = await view_of(session, applied)
    compaction = Compaction(session, applied, outcome, view, goal_of(view), services)
    return await compaction.carry_out(compaction.planner.smallest(), Obtained())


async def compact_idle(
    session: CompactionSession,
    applied: AppliedCheckpoint,
    outcome: CompactionResult,
    services: CompactionServices,
) -> CompactionResult:
    """Age the old results of a conversation whose upstream cache is lost, if that saves enough."""
    view = await view_of(session, applied)
    compaction = Compaction(session, applied, outcome, view, goal_of(view), services)
    plan = await asyncio.to_thread(compaction.planner.idle)
    return outcome if plan is None else await compaction.carry_out(plan, Obtained(label="none"))


class Compaction:
    """One compaction of one request."""

    def __init__(
        self,
        session: CompactionSession,
        applied: AppliedCheckpoint,
        outcome: CompactionResult,
        view: View,
        goal: Goal,
        services: CompactionServices,
    ) -> None:
        policy = session.compaction.policy
        self._session = session
        self._applied = applied
        self._outcome = outcome
        self._view = view
        self._goal = goal
        self._services = services
        self._policy = policy.summary
        # Nobody summarises a summary: what the client compacts itself is not worth a query.
        self._summarises = policy.summary.enabled and not session.compaction.client_compacting
        self.planner = Planner(view, policy.ageing, policy.budget)
        self._waited_seconds = 0.0

    @property
    def _fits(self) -> bool:
        return self._outcome.token_count.tokens <= self._goal.limit

    async def run(self) -> CompactionResult:
        """Return the compacted request, and how long it waited for a summary."""
        result = await self._run()
        return result._replace(waited_seconds=self._waited_seconds)

    async def _run(self) -> CompactionResult:
        """Plan without a fold first, then with the summary that can be had."""
        plan = await self._plan(ONLY_SUPERSEDED if self._summarises else WITHOUT_FOLD)
        if plan is not None and self._is_worth(plan):
            return await self.carry_out(plan, Obtained(label=self._outcome.label))
        obtained = await self._obtain()
        option = self._option(obtained.summary)
        if option is None:
            return self._unchanged(obtained)
        plan = await self._plan(option) or await self._optimistic_plan(option)
        if plan is None:
            return await self._unfit()
        if self._fits and not self._is_worth(plan):
            await self._start()
            return self._unchanged(obtained)
        return await self.carry_out(plan, obtained)

    async def carry_out(self, plan: Plan, obtained: Obtained) -> CompactionResult:
        """Return the request as planned; a plan whose estimate was too low is made smaller."""
        result = await self._adopted(plan, obtained)
        limit = self._goal.limit
        for _ in range(MAX_TRIES):
            excess = result.token_count.tokens - limit
            if excess <= 0 or plan.form == "smallest":
                break
            limit -= excess + limit // 50
            goal = Goal(min(self._goal.target, limit), limit, limit)
            option = self._option(obtained.summary) or WITH_NOTES
            smaller = await asyncio.to_thread(self.planner.plan, goal, option)
            if smaller is None:
                break
            plan, result = smaller, await self._adopted(smaller, obtained)
        return result

    async def _adopted(self, plan: Plan, obtained: Obtained) -> CompactionResult:
        before = self._applied.checkpoint
        summary, until = (before.summary, before.summarised_until) if before else ("", 0)
        if obtained.summary is not None:
            summary, until = obtained.summary.summary, obtained.summary.summarised_until
        adoption = Adoption(self._session, self._applied, self._view, plan, summary, until)
        originals = self._services.originals
        folded = await write_fold(adoption, originals)
        if folded is not None:
            plan = await self._with_spare_room_used(plan, folded.tokens)
            adoption = replace(adoption, plan=plan)
        label = "failed-open" if obtained.failure else obtained.label
        label = label if folded else self._outcome.label
        result = await adopt(adoption, folded, originals, label)
        report = await asyncio.to_thread(report_of, self._view, plan, self._goal.target)
        report = replace(report, is_waiting=self._is_waiting(plan, obtained))
        reason = obtained.reason if folded else ""
        return result._replace(plan=report, failures=self._outcome.failures, reason=reason)

    def _is_waiting(self, plan: Plan, obtained: Obtained) -> bool:
        """Return whether only a dry run carries this plan out: its summary is not ready yet."""
        is_ready = obtained.summary is not None or self._policy.waits_at_trigger
        is_dry_run = self._session.compaction.is_dry_run
        return is_dry_run and plan.folds and self._fits and not is_ready

    async def _with_spare_room_used(self, plan: Plan, tokens: int) -> Plan:
        """Return the plan with less ageing if the folded text is shorter than its room."""
        if plan.form != "folded and aged":
            return plan
        option = FoldOption(plan.end, is_allowed=True, room=tokens)
        better = await asyncio.to_thread(self.planner.plan, self._goal, option)
        return better if better is not None and better.end == plan.end else plan

    async def _obtain(self) -> Obtained:
        """Return a summary that is ready, or wait for one if the request does not fit."""
        session = self._session
        if not self._summarises:
            return Obtained()
        ready = await ready_summary(session, self._applied)
        if ready is not None or session.compaction.is_dry_run:
            return Obtained(ready, "reused" if ready else "built")
        task = await running_summary(session, self._services.summaries) or await self._start()
        if task is None:
            return Obtained(failure=None if self._fits else self._failure)
        if self._fits and not self._policy.waits_at_trigger:
            return Obtained()
        started = time.perf_counter()
        await self._services.summaries.jobs.wait(task)
        self._waited_seconds = time.perf_counter() - started
        # The task may belong to another request, whose list is not quite the same.
        written = await ready_summary(session, self._applied)
        if written is not None:
            return Obtained(written)
        scope = session.compaction.scope
        jobs = self._services.summaries.jobs
        return Obtained(failure=jobs.last_failure(scope, session.history))

    @property
    def _failure(self) -> SummaryFailed | None:
        """Why no summary is tried: the last one failed; None if its span is too small."""
        scope, history = self._session.compaction.scope, self._session.history
        jobs, tokens = self._services.summaries.jobs, self._outcome.token_count.tokens
        return None if jobs.may_try(scope, history, tokens) else jobs.last_failure(scope, history)

    async def _start(self) -> SummaryTask | None:
        tokens = self._outcome.token_count.tokens
        return await start_for(
            self._session, self._applied, self._view, tokens, self._services.summaries
        )

    def _option(self, summary: Checkpoint | None) -> FoldOption | None:
        """Return what may be folded; None: the request is sent as it is for now."""
        if summary is not None:
            end = index_of(self._view.conversation, summary.summarised_until)
            return FoldOption(end if end > self._view.folded else None, is_allowed=True)
        if not self._fits or self._session.compaction.is_dry_run:
            return WITH_NOTES
        return None

    async def _plan(self, option: FoldOption) -> Plan | None:
        return await asyncio.to_thread(self.planner.plan, self._goal, option)

    async def _optimistic_plan(self, option: FoldOption) -> Plan | None:
        """Return a plan that fits if the upstream counts as our tokenizer does.

        An estimate that is not calibrated yet is a tenth higher. What surely does not fit as it is
        should not be sent as it is while a form may fit.
        """
        ratio = self._outcome.token_count.ratio
        limit = int(self._goal.hard_limit * ratio)
        if ratio <= 1 or self._outcome.token_count.tokens <= limit:
            return None
        return await asyncio.to_thread(self.planner.plan, Goal(limit, limit, limit), option)

    def _is_worth(self, plan: Plan) -> bool:
        """Return whether a plan saves enough to break the upstream's cache for it."""
        tokens = self._outcome.token_count.tokens
        least = tokens * LEAST_GAIN
        if plan.end <= self._view.folded:  # nothing is folded anew, results only age
            ageing, wanted = self._session.compaction.policy.ageing, tokens - self._goal.target
            least = max(least, ageing.least_gain(self._view.budget, wanted))
        return tokens - plan.tokens >= least

    def _unchanged(self, obtained: Obtained) -> CompactionResult:
        label = "failed-open" if obtained.failure else self._outcome.label
        return self._outcome._replace(label=label, reason=obtained.reason)

    async def _unfit(self) -> CompactionResult:
        """Return the request as the client sent it, with the reason why no form fits."""
        unfit = await asyncio.to_thread(self.planner.unfit)
        unchanged = unchanged_result(self._session.compaction)
        reason = f"No form of the request fits: {unfit.sentence}."
        return unchanged._replace(label="failed-open", unfit=unfit.sentence, reason=reason)
