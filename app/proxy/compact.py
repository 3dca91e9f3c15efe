"""Keep a request inside its window: trim it, and make room when it presses."""

import asyncio
from functools import partial

from app.compaction.budget import Budget
from app.compaction.pipeline import Trimmed
from app.compaction.stage import StageContext
from app.proxy.by_hand import budget_by_hand, is_by_hand, is_untouched, repeated
from app.proxy.case import Case, Outcome, as_it_came
from app.proxy.history import history_of
from app.proxy.measure import Measured, Weight
from app.proxy.relief import relieve
from app.proxy.room import Room
from app.proxy.scales import Scales
from app.proxy.services import Services

INLINE_BYTES = 1024 * 1024


async def compact(case: Case, services: Services) -> Outcome:
    """Return what is to be sent instead of the client's conversation, which may be the same."""
    measured = case.measured
    if is_at_ease(case, services):
        return as_it_came(case)
    scales = Scales(case.request, measured, services.tokenizers)
    trimmed = await trim(case, services)
    weight = await scales.weigh(trimmed.conversation)
    outcome = Outcome(
        trimmed.conversation, weight, trimmed.steps, trimmed.failures, trimmed.notices
    )
    budget = measured.budget
    is_pressing = budget is not None and presses(case, weight, budget)
    if is_pressing or (not is_untouched(case, services) and await is_by_hand(case, services)):
        history = await history_of(case.conversation, len(case.request.body))
        room = Room(case, budget_by_hand(case), scales, history, services, outcome)
        outcome = await (relieve(room) if is_pressing else repeated(room))
    if outcome.label == "none" and outcome.steps:
        outcome = outcome._replace(label="trimmed")
    return outcome


def is_at_ease(case: Case, services: Services) -> bool:
    """Tell at a glance, as of most requests, that there is nothing to trim and room enough."""
    measured, budget = case.measured, case.measured.budget
    if not case.to.policy.pipeline.leaves_alone(measured.conversation.shape):
        return False
    return is_untouched(case, services) and not (budget and presses(case, measured, budget))


async def trim(case: Case, services: Services) -> Trimmed:
    """Trim the conversation; a text that is cut is kept whole in the store first, or not cut."""
    name = partial(services.offloads.id_of, case.tenant)
    context = StageContext(case.to.card.vision, name, services.keeping.file_of)
    trimmed = await _trimmed(case, context)
    if not trimmed.offloads or case.is_dry:
        return trimmed
    unkept = await services.keeping.keep_results(case.tenant, trimmed.offloads)
    services.metrics.offloads.labels("kept").inc(len(trimmed.offloads) - len(unkept))
    services.metrics.offloads.labels("refused").inc(len(unkept))
    if not unkept:
        return trimmed
    return await _trimmed(case, context._replace(whole=unkept))


async def _trimmed(case: Case, context: StageContext) -> Trimmed:
    trim_by = case.policy.pipeline.trim
    if len(case.request.body) <= INLINE_BYTES:
        return trim_by(case.conversation, context)
    return await asyncio.to_thread(trim_by, case.conversation, context)


def presses(case: Case, weight: Weight | Measured, budget: Budget) -> bool:
    """Tell whether the request is of a size at which anything may have been decided about it.

    From half of the trigger on, as another `max_tokens` moves it, and where a pause alone would
    be reason enough to clear what tools and users sent along.
    """
    measured = case.measured
    if budget.usable <= 0 or not len(measured.conversation.origins):
        return False
    # The client's own size too: what a stage drops may have a summary all the same.
    if max(weight.tokens, measured.tokens) >= budget.trigger // 2:
        return True
    policy, count = case.policy, weight.counted
    if not policy.idle_seconds or not (count.tool_results or count.media):
        return False
    return policy.most_gain(count, weight.ratio, budget) >= policy.least_gain(budget)
