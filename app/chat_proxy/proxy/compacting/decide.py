"""Decide how a trimmed request is compacted: repeat earlier decisions, make new ones when due."""

import asyncio
from dataclasses import replace
from functools import partial

from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.pipeline import Relieved
from chat_proxy.proxy.compacting.open_session import open_session
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.session.checkpoints import Checkpoints
from chat_proxy.proxy.session.last_seen import LastSeen
from chat_proxy.proxy.session.manual_mark import (
    MANUAL,
    is_marked_manual,
    repeat_decisions,
)
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.sizing.measure import Measured, TokenCount
from chat_proxy.proxy.summaries.obtain import SummarySearch
from chat_proxy.proxy.summaries.services import SummaryServices

LEAST_GAIN = 0.1


def nothing_to_do(compaction: CompactionRequest, checkpoints: Checkpoints) -> bool:
    """Return whether a request is surely sent unchanged, as most are; fast and without I/O."""
    measured, route = compaction.measured, compaction.route
    if not route.policy.pipeline.has_nothing_to_do(measured.conversation.shape):
        return False
    if not checkpoints.was_unmarked(compaction.tenant, route.fingerprint, MANUAL):
        return False
    return measured.budget is None or not is_near_window(compaction, measured, measured.budget)


async def decide(
    compaction: CompactionRequest, trimmed: CompactionResult, services: CompactionServices
) -> CompactionResult:
    """Return the request as it is sent: trimmed, and compacted if its size requires it."""
    budget = compaction.measured.budget
    is_near = budget is not None and is_near_window(compaction, trimmed.token_count, budget)
    outcome = trimmed
    if is_near:
        session = await open_session(compaction, trimmed, services)
        outcome = await _decide_or_repeat(session, services.last_seen, services.summaries)
    elif await is_marked_manual(compaction, services.checkpoints):
        outcome = await repeat_decisions(await open_session(compaction, trimmed, services))
    is_only_trimmed = outcome.label == "none" and outcome.steps
    return outcome._replace(label="trimmed") if is_only_trimmed else outcome


def is_near_window(
    compaction: CompactionRequest, token_count: TokenCount | Measured, budget: Budget
) -> bool:
    """Return whether a request is so large that it may have been compacted before.

    That is from half of the trigger on, because another `max_tokens` moves the trigger; or if
    clearing after a pause would save enough.
    """
    measured = compaction.measured
    if budget.usable <= 0 or not len(measured.conversation.origins):
        return False
    # Compare the client's own size too: turns that a stage drops may still have a summary.
    if max(token_count.tokens, measured.tokens) >= budget.trigger // 2:
        return True
    policy, count = compaction.route.policy, token_count.counted
    if not policy.idle_seconds or not (count.tool_results or count.media):
        return False
    return policy.most_gain(count, token_count.ratio, budget) >= policy.least_gain(budget)


async def _decide_or_repeat(
    session: CompactionSession, last_seen: LastSeen, summaries: SummaryServices
) -> CompactionResult:
    """Apply the earlier decisions about this history, and decide again if that is due."""
    found = await session.find()
    applied = await session.apply_checkpoint(found)
    outcome = await session.outcome(applied)
    over = is_due(session, outcome.token_count.tokens, applied)
    if over:
        # A decision that another process made meanwhile must be applied, not made again.
        newer = await session.find(anew=True)
        if newer != found:
            applied = await session.apply_checkpoint(newer)
            outcome = await session.outcome(applied)
            over = is_due(session, outcome.token_count.tokens, applied)
    idle = await is_idle(session, last_seen)
    if over or idle:
        return await _compact_anew(session, applied, outcome, summaries, over=over)
    if outcome.token_count.tokens >= session.budget.prepare and prepares(session):
        search = SummarySearch(session, applied, applied.clearing, summaries)
        search.prepare(outcome.token_count.tokens)
    return outcome


def prepares(session: CompactionSession) -> bool:
    """Return whether summaries are prepared before the trigger."""
    policy = session.compaction.policy
    return policy.summary.enabled and policy.budget.prepare < 1


async def is_idle(session: CompactionSession, last_seen: LastSeen) -> bool:
    """Return whether the conversation was idle for so long that the upstream's cache is gone."""
    compaction, history = session.compaction, session.history
    if not compaction.policy.idle_seconds or compaction.is_dry_run:
        return False
    seen = await last_seen.touch(compaction.scope, history.seams, history.links)
    return seen is not None and seen > compaction.policy.idle_seconds


def is_due(session: CompactionSession, tokens: int, applied: AppliedCheckpoint) -> bool:
    """Return whether the prompt is over the trigger and has grown enough to be compacted again."""
    budget = session.budget
    if tokens < budget.trigger:
        return False
    grown = tokens - (applied.checkpoint.tokens if applied.checkpoint else 0)
    return grown >= budget.least_growth or tokens > budget.limit


async def _compact_anew(
    session: CompactionSession,
    applied: AppliedCheckpoint,
    outcome: CompactionResult,
    summaries: SummaryServices,
    *,
    over: bool,
) -> CompactionResult:
    """Clear old tool results and media; fold into a summary if that is not enough."""
    relieved = await asyncio.to_thread(
        session.compaction.policy.pipeline.relieve,
        applied.visible,
        applied.clearing,
        partial(session.request_counter.pressure_on, budget=session.budget),
    )
    outcome = outcome._replace(failures=(*outcome.failures, *relieved.failures))
    token_count = await session.request_counter.count_conversation(relieved.conversation)
    failed = False
    if (
        over
        and token_count.tokens > session.budget.target
        and session.compaction.policy.summary.enabled
    ):
        search = SummarySearch(session, applied, relieved.clearing, summaries)
        folded = await search.fold(outcome)
        if folded is not None:
            return folded._replace(failures=outcome.failures)
        failed = search.has_failed
    if is_worth(
        session,
        outcome.token_count.tokens - token_count.tokens,
        outcome.token_count.tokens,
        over=over,
    ):
        less = await session.adopted(
            cleared(session, applied, relieved), outcome.label, outcome.token_count.tokens
        )
        outcome = (less or outcome)._replace(failures=outcome.failures)
    return outcome._replace(label="failed-open") if failed else outcome


def is_worth(session: CompactionSession, won: int, tokens: int, *, over: bool) -> bool:
    """Return whether the saved tokens are worth the loss of the upstream's cache."""
    least = tokens * LEAST_GAIN if over else session.compaction.policy.least_gain(session.budget)
    return won > 0 and won >= least


def cleared(
    session: CompactionSession, applied: AppliedCheckpoint, relieved: Relieved
) -> Checkpoint:
    """Return the checkpoint with the new clearing and the earlier summary."""
    before = applied.checkpoint or Checkpoint(0, relieved.clearing, 0)
    until = session.history.seam_from(max(before.until, relieved.clearing.until))
    return replace(before, until=until, clearing=relieved.clearing)
