"""Obtain the summary of a request's older messages: one that is ready, or a new one."""

import asyncio
from functools import partial

from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.session.session import AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.summaries.draft import Span, SummaryDraft
from chat_proxy.proxy.summaries.jobs import PREPARED, SummaryJob, SummaryTask
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.proxy.summaries.writing.write import write_summary

LEAST_SHARE = 0.1
"""The share of the trigger that a span must have to be worth a summary."""


async def ready_summary(
    session: CompactionSession, applied: AppliedCheckpoint
) -> Checkpoint | None:
    """Return the newest summary that was prepared, if it covers more than the one in use."""
    prepared = await session.find(PREPARED)
    if prepared is not None and not covers_more(prepared, applied):
        # A newer one may have been prepared of a history that the client has changed since.
        prepared = await session.find(PREPARED, anew=True)
    return prepared if covers_more(prepared, applied) else None


def covers_more(checkpoint: Checkpoint | None, applied: AppliedCheckpoint) -> bool:
    """Return whether a summary covers more messages than the one in use."""
    return checkpoint is not None and checkpoint.summarised_until > applied.summarised_until


async def running_summary(
    session: CompactionSession, services: SummaryServices
) -> SummaryTask | None:
    """Return the task that is writing a summary of this history, if there is one."""
    return await services.jobs.under_way(session.compaction.scope, session.history)


async def start_summary(
    draft: SummaryDraft, span: Span, tokens: int, services: SummaryServices
) -> SummaryTask | None:
    """Start writing a summary of a span, unless it is too small or one failed just now.

    `tokens` is the size of the prompt that needs the summary.
    """
    session, guard = draft.session, services.storm_guard
    compaction, model = session.compaction, session.compaction.request.model
    if not services.jobs.may_try(compaction.scope, session.history, tokens):
        return None
    if await asyncio.to_thread(draft.span_tokens, span) < LEAST_SHARE * session.budget.trigger:
        return None
    job = job_of(draft, span, tokens, services)
    task = services.jobs.known(job)
    if task is None and guard.allows(compaction.tenant, model):
        guard.started(compaction.tenant, model)
        task = services.jobs.begin(job)
    return task


def job_of(draft: SummaryDraft, span: Span, tokens: int, services: SummaryServices) -> SummaryJob:
    """Return the job that summarises a span; `tokens` is the prompt size that needs it."""
    session, history = draft.session, draft.session.history
    end = history.seam_from(draft.boundary(span))
    return SummaryJob(
        session.compaction.scope,
        history.link_at(end),
        history.anchor_at(end) or b"",
        end,
        draft.applied.summarised_until if draft.has_previous else 0,
        tokens,
        session.compaction.policy.summary.timeout_seconds,
        history,
        partial(write_summary, draft, span, services),
        draft.wish,
    )
