"""Room for a request that presses: repeat what was decided before, decide anew when it is due."""

import asyncio
from dataclasses import replace
from functools import partial

from app.compaction.checkpoint import Checkpoint
from app.compaction.pipeline import Relieved
from app.proxy.case import Outcome
from app.proxy.folding import Folding
from app.proxy.room import Room
from app.proxy.standing import Standing

LEAST_GAIN = 0.1


async def relieve(room: Room) -> Outcome:
    """Repeat what was decided about this history before, and decide anew if that is due."""
    found = await room.find()
    standing = await room.stand(found)
    outcome = await room.outcome(standing)
    over = is_due(room, outcome.weight.tokens, standing)
    if over:
        # What another process decided since the last look must be repeated, not decided again.
        newer = await room.find(anew=True)
        if newer != found:
            standing = await room.stand(newer)
            outcome = await room.outcome(standing)
            over = is_due(room, outcome.weight.tokens, standing)
    idle = await is_idle(room)
    if over or idle:
        return await decide(room, standing, outcome, over=over)
    if outcome.weight.tokens >= room.budget.prepare and prepares(room):
        Folding(room, standing, standing.clearing).prepare(outcome.weight.tokens)
    return outcome


def prepares(room: Room) -> bool:
    """Tell whether summaries are written ahead of the trigger."""
    policy = room.case.policy
    return policy.summary.enabled and policy.budget.prepare < 1


async def is_idle(room: Room) -> bool:
    """Tell whether the upstream's cache has long forgotten this conversation."""
    case, history = room.case, room.history
    if not case.policy.idle_seconds or case.is_dry:
        return False
    seen = await room.services.last_seen.touch(case.scope, history.seams, history.links)
    return seen is not None and seen > case.policy.idle_seconds


def is_due(room: Room, tokens: int, standing: Standing) -> bool:
    """Tell whether the prompt is over the trigger, and has grown enough to be cut again."""
    budget = room.budget
    if tokens < budget.trigger:
        return False
    grown = tokens - (standing.checkpoint.tokens if standing.checkpoint else 0)
    return grown >= budget.least_growth or tokens > budget.limit


async def decide(room: Room, standing: Standing, outcome: Outcome, *, over: bool) -> Outcome:
    """Clear what is old; where that is not enough, fold it into a summary in the same pass."""
    relieved = await asyncio.to_thread(
        room.case.policy.pipeline.relieve,
        standing.visible,
        standing.clearing,
        partial(room.scales.pressure_on, budget=room.budget),
    )
    outcome = outcome._replace(failures=(*outcome.failures, *relieved.failures))
    weight = await room.scales.weigh(relieved.conversation)
    failed = False
    if over and weight.tokens > room.budget.target and room.case.policy.summary.enabled:
        folding = Folding(room, standing, relieved.clearing)
        folded = await folding.fold(outcome)
        if folded is not None:
            return folded._replace(failures=outcome.failures)
        failed = folding.has_failed
    if is_worth(room, outcome.weight.tokens - weight.tokens, outcome.weight.tokens, over=over):
        less = await room.adopted(
            cleared(room, standing, relieved), outcome.label, outcome.weight.tokens
        )
        outcome = (less or outcome)._replace(failures=outcome.failures)
    return outcome._replace(label="failed-open") if failed else outcome


def is_worth(room: Room, won: int, tokens: int, *, over: bool) -> bool:
    """Tell whether enough was won to be worth the upstream's cache."""
    least = tokens * LEAST_GAIN if over else room.case.policy.least_gain(room.budget)
    return won > 0 and won >= least


def cleared(room: Room, standing: Standing, relieved: Relieved) -> Checkpoint:
    """Return the checkpoint of what was cleared, with the summary that was there before."""
    before = standing.checkpoint or Checkpoint(0, relieved.clearing, 0)
    until = room.history.seam_from(max(before.until, relieved.clearing.until))
    return replace(before, until=until, clearing=relieved.clearing)
