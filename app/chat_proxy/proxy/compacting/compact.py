"""Keep a request inside its window: trim it, and make room when it presses."""

import asyncio
from functools import partial

from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.pipeline import Trimmed
from chat_proxy.compaction.stages.stage import StageContext
from chat_proxy.proxy.compacting.decide import decide_or_repeat
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.history_hashes import history_hashes
from chat_proxy.proxy.session.manual_mark import (
    budget_or_assumed,
    is_marked_manual,
    is_surely_unmarked,
    repeat_decisions,
)
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult, unchanged_result
from chat_proxy.proxy.session.session import CompactionSession
from chat_proxy.proxy.sizing.measure import Measured, TokenCount
from chat_proxy.proxy.sizing.request_counter import RequestCounter

INLINE_BYTES = 1024 * 1024


async def compact(compaction: CompactionRequest, services: Services) -> CompactionResult:
    """Return what is to be sent instead of the client's conversation, which may be the same."""
    measured = compaction.measured
    if nothing_to_do(compaction, services):
        return unchanged_result(compaction)
    request_counter = RequestCounter(compaction.request, measured, services.tokenizers)
    trimmed = await trim(compaction, services)
    token_count = await request_counter.count_conversation(trimmed.conversation)
    outcome = CompactionResult(
        trimmed.conversation, token_count, trimmed.steps, trimmed.failures, trimmed.notices
    )
    budget = measured.budget
    is_pressing = budget is not None and presses(compaction, token_count, budget)
    if is_pressing or (
        not is_surely_unmarked(compaction, services)
        and await is_marked_manual(compaction, services)
    ):
        history = await history_hashes(compaction.conversation, len(compaction.request.body))
        room = CompactionSession(
            compaction, budget_or_assumed(compaction), request_counter, history, services, outcome
        )
        outcome = await (decide_or_repeat(room) if is_pressing else repeat_decisions(room))
    if outcome.label == "none" and outcome.steps:
        outcome = outcome._replace(label="trimmed")
    return outcome


def nothing_to_do(compaction: CompactionRequest, services: Services) -> bool:
    """Tell at a glance, as of most requests, that there is nothing to trim and room enough."""
    measured, budget = compaction.measured, compaction.measured.budget
    if not compaction.to.policy.pipeline.leaves_alone(measured.conversation.shape):
        return False
    return is_surely_unmarked(compaction, services) and not (
        budget and presses(compaction, measured, budget)
    )


async def trim(compaction: CompactionRequest, services: Services) -> Trimmed:
    """Trim the conversation; a text that is cut is kept whole in the store first, or not cut."""
    name = partial(services.offloads.id_of, compaction.tenant)
    context = StageContext(compaction.to.card.vision, name, services.originals.file_of)
    trimmed = await _trimmed(compaction, context)
    if not trimmed.offloads or compaction.is_dry_run:
        return trimmed
    unkept = await services.originals.keep_results(compaction.tenant, trimmed.offloads)
    services.metrics.offloads.labels("kept").inc(len(trimmed.offloads) - len(unkept))
    services.metrics.offloads.labels("refused").inc(len(unkept))
    if not unkept:
        return trimmed
    return await _trimmed(compaction, context._replace(whole=unkept))


async def _trimmed(compaction: CompactionRequest, context: StageContext) -> Trimmed:
    trim_by = compaction.policy.pipeline.trim
    if len(compaction.request.body) <= INLINE_BYTES:
        return trim_by(compaction.conversation, context)
    return await asyncio.to_thread(trim_by, compaction.conversation, context)


def presses(
    compaction: CompactionRequest, token_count: TokenCount | Measured, budget: Budget
) -> bool:
    """Tell whether the request is of a size at which anything may have been decided about it.

    From half of the trigger on, as another `max_tokens` moves it, and where a pause alone would
    be reason enough to clear what tools and users sent along.
    """
    measured = compaction.measured
    if budget.usable <= 0 or not len(measured.conversation.origins):
        return False
    # The client's own size too: what a stage drops may have a summary all the same.
    if max(token_count.tokens, measured.tokens) >= budget.trigger // 2:
        return True
    policy, count = compaction.policy, token_count.counted
    if not policy.idle_seconds or not (count.tool_results or count.media):
        return False
    return policy.most_gain(count, token_count.ratio, budget) >= policy.least_gain(budget)
