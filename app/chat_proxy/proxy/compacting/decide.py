"""Decide how a trimmed request is compacted: repeat earlier decisions, make new ones when due."""

from chat_proxy.compaction.budget import LEAST_GAIN, Budget
from chat_proxy.compaction.planner.forms import Goal
from chat_proxy.compaction.planner.view import pace_of
from chat_proxy.proxy.compacting.clear import find_cleared, with_cleared
from chat_proxy.proxy.compacting.compact import compact, compact_idle, compact_to_fit
from chat_proxy.proxy.compacting.open_session import open_session
from chat_proxy.proxy.compacting.prepare import prepare_summary
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.session.manual_mark import MANUAL, is_marked_manual, repeat_decisions
from chat_proxy.proxy.session.output import asks_for_too_much
from chat_proxy.proxy.session.recognition.checkpoints import Checkpoints
from chat_proxy.proxy.session.recognition.last_seen import LastSeen
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.sizing.measure import Measured, TokenCount


def nothing_to_do(compaction: CompactionRequest, checkpoints: Checkpoints) -> bool:
    """Return whether a request is surely sent unchanged, as most are; fast and without I/O."""
    measured, route = compaction.measured, compaction.route
    if not route.policy.pipeline.has_nothing_to_do(measured.conversation.shape):
        return False
    if not checkpoints.was_unmarked(compaction.tenant, route.fingerprint, MANUAL):
        return False
    if compaction.clear_results is not None or compaction.clear_thinking is not None:
        return False
    if measured.budget is None:
        return True
    if asks_for_too_much(compaction, measured.tokens):
        return False
    return not is_near_window(compaction, measured, measured.budget)


async def decide(
    compaction: CompactionRequest, trimmed: CompactionResult, services: CompactionServices
) -> CompactionResult:
    """Return the request as it is sent: trimmed, and compacted if its size requires it."""
    budget = compaction.measured.budget
    is_near = budget is not None and is_near_window(compaction, trimmed.token_count, budget)
    outcome = trimmed
    if is_near or compaction.clear_results is not None:
        session = await open_session(compaction, trimmed, services)
        client = compaction.client_compacting
        if client:
            if not compaction.is_dry_run:
                limits = services.summaries.client_limits
                limits.saw_own_compaction(compaction.scope, trimmed.token_count.tokens)
            outcome = (await _unfolded(session, services))._replace(client=client)
        else:
            outcome = await _decide_or_repeat(session, services)
    elif await is_marked_manual(compaction, services.checkpoints):
        outcome = await repeat_decisions(await open_session(compaction, trimmed, services))
    is_only_trimmed = outcome.label == "none" and outcome.steps
    return outcome._replace(label="trimmed") if is_only_trimmed else outcome


async def _unfolded(session: CompactionSession, services: CompactionServices) -> CompactionResult:
    """Return a client's own compaction request with as little left out as the window demands.

    The client would summarise our summary otherwise. No decision about it is stored.
    """
    applied = await session.apply(None)
    outcome = await session.outcome(applied)
    budget = session.budget
    if outcome.token_count.tokens <= budget.limit:
        return outcome
    goal = Goal(budget.limit, budget.limit, budget.hard_limit)
    return await compact_to_fit(session, applied, outcome, goal, services)


def is_near_window(
    compaction: CompactionRequest, token_count: TokenCount | Measured, budget: Budget
) -> bool:
    """Return whether a request is so large that it may have been compacted before.

    That is from half of the trigger on, because another `max_tokens` moves the trigger; or if
    ageing after a pause would save enough.
    """
    measured = compaction.measured
    if not len(measured.conversation.origins):
        return False
    # Compare the client's own size too: turns that a stage drops may still have a summary.
    tokens = max(token_count.tokens, measured.tokens)
    if tokens >= budget.trigger // 2:
        return True
    policy, count = compaction.route.policy, token_count.counted
    if not policy.idle_seconds or not count.tool_results:
        return False
    return policy.most_gain(count, token_count.ratio, budget) >= policy.ageing.minimum(budget)


async def _decide_or_repeat(
    session: CompactionSession, services: CompactionServices
) -> CompactionResult:
    """Apply the earlier decisions about this history, and decide again if that is due."""
    found = await find_cleared(session)
    applied = await session.apply(found.checkpoint)
    outcome = await session.outcome(applied)
    if is_due(session.budget, outcome.token_count.tokens, applied):
        # A decision that another process made meanwhile must be applied, not made again.
        newer = await find_cleared(session, anew=True)
        if newer.checkpoint != found.checkpoint:
            found = newer
            applied = await session.apply(newer.checkpoint)
            outcome = await session.outcome(applied)
    outcome = outcome._replace(is_break=found.is_new)
    result = await _decided(session, applied, outcome, services)
    return with_cleared(session, found.checkpoint, result)


async def _decided(
    session: CompactionSession,
    applied: AppliedCheckpoint,
    outcome: CompactionResult,
    services: CompactionServices,
) -> CompactionResult:
    """Return a request with the earlier decisions applied, compacted anew if that is due."""
    _count_request(session, applied, services)
    await session.images.notes.ask_about(session.compaction)
    is_over = is_due(session.budget, outcome.token_count.tokens, applied)
    idle = await is_idle(session, services.last_seen)
    if is_over:
        return await compact(session, applied, outcome, services)
    if idle:
        return await compact_idle(session, applied, outcome, services)
    if is_near_trigger(session, outcome):
        await prepare_summary(session, applied, outcome.token_count.tokens, services.summaries)
    return outcome


def _count_request(
    session: CompactionSession, applied: AppliedCheckpoint, services: CompactionServices
) -> None:
    compaction = session.compaction
    if not compaction.is_dry_run:
        model, reuses = compaction.request.model, applied.checkpoint is not None
        services.summaries.storm_guard.saw_request(compaction.tenant, model, reuses=reuses)


def is_near_trigger(session: CompactionSession, outcome: CompactionResult) -> bool:
    """Return whether a summary will be needed within about two requests."""
    policy, budget, tokens = session.compaction.policy, session.budget, outcome.token_count.tokens
    if not policy.summary.enabled or policy.budget.prepare >= 1 or tokens < budget.prepare:
        return False
    pace = pace_of(outcome.conversation, outcome.token_count.sizes)
    return tokens >= budget.prepare_from(pace)


async def is_idle(session: CompactionSession, last_seen: LastSeen) -> bool:
    """Return whether the conversation was idle for so long that the upstream's cache is gone."""
    compaction = session.compaction
    if not compaction.policy.idle_seconds or compaction.is_dry_run:
        return False
    seen = await last_seen.touch(compaction.scope, session.history)
    return seen is not None and seen > compaction.policy.idle_seconds


def is_due(budget: Budget, tokens: int, applied: AppliedCheckpoint) -> bool:
    """Return whether the prompt is over the trigger and has grown enough to be compacted again."""
    if tokens < budget.trigger:
        return False
    before = applied.checkpoint.tokens if applied.checkpoint else 0
    return tokens >= before * (1 + LEAST_GAIN) or tokens > budget.limit
