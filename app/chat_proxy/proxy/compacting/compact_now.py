"""Compact a request at once, whatever its size, because its client asks for it."""

from chat_proxy.compaction.planner.forms import Goal
from chat_proxy.proxy.compacting.compact import compact_to_fit, compact_to_smallest
from chat_proxy.proxy.compacting.open_session import budget_or_assumed, open_session, view_of
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.compacting.trim import trim
from chat_proxy.proxy.session.request import (
    CompactionRequest,
    CompactionResult,
    unchanged_result,
)

LEAST_TOKENS = 800
"""What a conversation must have beside its instructions to be worth a fold."""


async def compact_now(
    compaction: CompactionRequest, services: CompactionServices
) -> CompactionResult:
    """Return a request whose conversation has about a third of its size.

    Without a summary, notes stand for the folded messages: the conversation must go on. One that
    is too short to gain anything stays as it is.
    """
    trimmed = await trim(compaction, services)
    if len(trimmed.conversation) < len(compaction.conversation):
        trimmed = unchanged_result(compaction)  # turns that a stage drops are summarised too
    session = await open_session(compaction, trimmed, services)
    applied = await session.apply(await session.find())
    outcome = await session.outcome(applied)
    view = await view_of(session, applied)
    tokens = outcome.token_count.tokens
    spoken = max(0, view.tokens - view.fixed)
    if spoken < LEAST_TOKENS:
        return outcome
    budget = budget_or_assumed(compaction).with_trigger(view.fixed + spoken // 2)
    measured = compaction.measured._replace(budget=budget)
    session = await open_session(compaction._replace(measured=measured), trimmed, services)
    target = (await view_of(session, applied)).target
    limit = min(budget.limit, tokens - 1)
    goal = Goal(min(target, limit), limit, min(budget.hard_limit, limit))
    result = await compact_to_fit(session, applied, outcome, goal, services)
    if result.unfit and tokens > budget.limit:
        result = await compact_to_smallest(session, applied, outcome, services)
    return result if result.token_count.tokens < tokens else outcome
