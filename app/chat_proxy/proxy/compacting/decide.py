"""Room for a request that presses: repeat what was decided before, decide anew when it is due."""

import asyncio
from dataclasses import replace
from functools import partial

from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.pipeline import Relieved
from chat_proxy.proxy.session.request import CompactionResult
from chat_proxy.proxy.session.session import AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.summaries.obtain import SummarySearch

LEAST_GAIN = 0.1


async def decide_or_repeat(session: CompactionSession) -> CompactionResult:
    """Repeat what was decided about this history before, and decide anew if that is due."""
    found = await session.find()
    applied = await session.apply_checkpoint(found)
    outcome = await session.outcome(applied)
    over = is_due(session, outcome.token_count.tokens, applied)
    if over:
        # What another process decided since the last look must be repeated, not decided again.
        newer = await session.find(anew=True)
        if newer != found:
            applied = await session.apply_checkpoint(newer)
            outcome = await session.outcome(applied)
            over = is_due(session, outcome.token_count.tokens, applied)
    idle = await is_idle(session)
    if over or idle:
        return await decide(session, applied, outcome, over=over)
    if outcome.token_count.tokens >= session.budget.prepare and prepares(session):
        SummarySearch(session, applied, applied.clearing).prepare(outcome.token_count.tokens)
    return outcome


def prepares(session: CompactionSession) -> bool:
    """Tell whether summaries are written ahead of the trigger."""
    policy = session.compaction.policy
    return policy.summary.enabled and policy.budget.prepare < 1


async def is_idle(session: CompactionSession) -> bool:
    """Tell whether the upstream's cache has long forgotten this conversation."""
    compaction, history = session.compaction, session.history
    if not compaction.policy.idle_seconds or compaction.is_dry_run:
        return False
    seen = await session.services.last_seen.touch(compaction.scope, history.seams, history.links)
    return seen is not None and seen > compaction.policy.idle_seconds


def is_due(session: CompactionSession, tokens: int, applied: AppliedCheckpoint) -> bool:
    """Tell whether the prompt is over the trigger, and has grown enough to be cut again."""
    budget = session.budget
    if tokens < budget.trigger:
        return False
    grown = tokens - (applied.checkpoint.tokens if applied.checkpoint else 0)
    return grown >= budget.least_growth or tokens > budget.limit


async def decide(
    session: CompactionSession, applied: AppliedCheckpoint, outcome: CompactionResult, *, over: bool
) -> CompactionResult:
    """Clear what is old; where that is not enough, fold it into a summary in the same pass."""
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
        folding = SummarySearch(session, applied, relieved.clearing)
        folded = await folding.fold(outcome)
        if folded is not None:
            return folded._replace(failures=outcome.failures)
        failed = folding.has_failed
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
    """Tell whether enough was won to be worth the upstream's cache."""
    least = tokens * LEAST_GAIN if over else session.compaction.policy.least_gain(session.budget)
    return won > 0 and won >= least


def cleared(
    session: CompactionSession, applied: AppliedCheckpoint, relieved: Relieved
) -> Checkpoint:
    """Return the checkpoint of what was cleared, with the summary that was there before."""
    before = applied.checkpoint or Checkpoint(0, relieved.clearing, 0)
    until = session.history.seam_from(max(before.until, relieved.clearing.until))
    return replace(before, until=until, clearing=relieved.clearing)
