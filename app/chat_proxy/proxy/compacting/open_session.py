"""Open the compaction session of a request, and measure it for the planner."""

import asyncio
from functools import partial

from chat_proxy.chat.media import Media
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.planner.forms import Goal
from chat_proxy.compaction.planner.view import View
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.session.recognition.history import history_of
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.sizing.request_counter import RequestCounter
from chat_proxy.tokens.images.fit import Fit
from chat_proxy.tokens.images.size import base64_of

DIGESTS = "digests"
"""The kind of the key under which a scope's messages are digested."""
ASSUMED_WINDOW = 32_768
ASSUMED_FACTOR = 4


async def open_session(
    compaction: CompactionRequest, trimmed: CompactionResult, services: CompactionServices
) -> CompactionSession:
    """Return the session of a trimmed request, its history hashed."""
    return CompactionSession(
        compaction,
        budget_or_assumed(compaction),
        RequestCounter(compaction.request, compaction.measured, services.tokenizers),
        await history_of(
            compaction.conversation,
            compaction.policy.volatile,
            compaction.scope.key(services.checkpoints.store, DIGESTS),
            compaction.request.work_bytes,
        ),
        services.checkpoints,
        trimmed,
        services.originals,
        services.images,
    )


def budget_or_assumed(compaction: CompactionRequest) -> Budget:
    """Return the request's budget; if no window is known, one that the request surely fits.

    The upstream has accepted the conversation so far, and refuses a summary query that is too long.
    """
    measured = compaction.measured
    if measured.budget is not None:
        return measured.budget
    window = max(ASSUMED_WINDOW, ASSUMED_FACTOR * measured.tokens)
    return Budget.of(window, compaction.request.options, compaction.policy.budget)


async def view_of(session: CompactionSession, applied: AppliedCheckpoint) -> View:
    """Return what the planner sees of a session."""
    return await asyncio.to_thread(_view_of, session, applied)


def goal_of(view: View) -> Goal:
    """Return the sizes that a compaction should reach."""
    budget = view.budget
    return Goal(view.target, budget.limit, budget.hard_limit)


def _view_of(session: CompactionSession, applied: AppliedCheckpoint) -> View:
    counter = session.request_counter
    unfolded = applied.unfolded
    token_count = counter.count_conversation_in_thread(unfolded)
    sizes = token_count.sizes
    view = View(
        unfolded,
        sizes,
        max(0, token_count.tokens - sum(sizes)),
        session.budget,
        applied.start,
        0,
        applied.treatments,
        partial(counter.count, ratio=token_count.ratio),
        partial(counter.media_sizes, unfolded, token_count.ratio),
        partial(_fit, session, token_count.ratio),
    )
    if applied.visible is unfolded:
        return view
    visible = counter.count_conversation_in_thread(applied.visible).tokens
    return view.with_fold(max(0, visible - view.tokens))


def _fit(session: CompactionSession, ratio: float, medium: Media, max_tokens: int) -> Fit | None:
    """Return the smaller form of an image with at most so many tokens, None if it has none."""
    images = session.images.scaled
    if medium.kind != "image" or not medium.is_inline or not images.is_available:
        return None
    smaller = session.request_counter.fit(medium, max_tokens, ratio)
    base64 = base64_of(medium.data) if smaller is not None else None
    if base64 is None or images.is_refused(session.compaction.tenant, base64):
        return None
    return smaller
