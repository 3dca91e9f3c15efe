"""Prepare a summary in the background, so that it is ready at the trigger."""

import asyncio
from functools import partial

from chat_proxy.compaction.planner.forms import Planner
from chat_proxy.compaction.planner.view import View
from chat_proxy.proxy.compacting.open_session import view_of
from chat_proxy.proxy.session.session import AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.summaries.draft import Span, SummaryDraft
from chat_proxy.proxy.summaries.jobs import SummaryTask
from chat_proxy.proxy.summaries.obtain import ready_summary, running_summary, start_summary
from chat_proxy.proxy.summaries.services import SummaryServices

WAITING_SHARE = 0.4
"""The share of the usable window that may wait for the next summary."""
REQUESTS_PER_SUMMARY = 6
"""The fewest requests between two summaries of a conversation."""


async def prepare_summary(
    session: CompactionSession,
    applied: AppliedCheckpoint,
    tokens: int,
    services: SummaryServices,
) -> None:
    """Start writing a summary in the background if the trigger is near and none is ready."""
    if session.compaction.is_dry_run or await running_summary(session, services) is not None:
        return
    if await ready_summary(session, applied) is not None:
        return
    key = (session.compaction.scope, session.history.beginning)
    services.jobs.check_ahead(key, tokens, partial(_start, session, applied, tokens, services))


async def _start(
    session: CompactionSession, applied: AppliedCheckpoint, tokens: int, services: SummaryServices
) -> bool:
    view = await view_of(session, applied)
    return await start_for(session, applied, view, tokens, services) is not None


def _start_of(draft: SummaryDraft) -> int:
    """Return where a draft's span begins, for which every message is looked at once."""
    return draft.start


def _is_recent(draft: SummaryDraft, span: Span) -> bool:
    """Return whether the summary in use is only a few requests old, and a new one can wait.

    A run that reads large files would buy one with every second request. What is folded meanwhile
    is in the notes, and the next summary is shown it, as long as one query can show it.
    """
    if not draft.applied.summarised_until:
        return False
    messages = draft.conversation.messages[draft.start :]
    if sum(message.is_assistant for message in messages) >= REQUESTS_PER_SUMMARY:
        return False
    return draft.span_tokens(span) < WAITING_SHARE * draft.session.budget.usable


async def start_for(
    session: CompactionSession,
    applied: AppliedCheckpoint,
    view: View,
    tokens: int,
    services: SummaryServices,
) -> SummaryTask | None:
    """Start writing the summary that a prompt of this size needs soon.

    While the prompt fits and nobody waits, a later request uses the summary: until then the prompt
    grows on. None is started if the client is likely to compact the conversation itself before.
    """
    compaction, limit = session.compaction, session.budget.limit
    policy = compaction.policy
    growth = max(0, view.trigger - tokens)
    is_awaited = policy.summary.waits_at_trigger and tokens >= view.trigger
    if tokens <= limit and not is_awaited:
        if services.client_limits.expects_own_compaction(compaction.scope, tokens, limit):
            return None
        growth += view.pace * 3 // 2
    planner = Planner(view, policy.ageing, policy.budget)
    end = await asyncio.to_thread(planner.end_for_summary, view.target, growth)
    draft = SummaryDraft(session, applied, wish=compaction.instruction)
    span = Span(await asyncio.to_thread(_start_of, draft), end)
    if end <= span.start or await asyncio.to_thread(_is_recent, draft, span):
        return None
    return await start_summary(draft, span, tokens, services)
