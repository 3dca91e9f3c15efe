"""Clear what a client asks to be cleared, and remember it, so that the same stays cleared."""

import asyncio
from dataclasses import replace
from typing import NamedTuple

from chat_proxy.compaction.ageing.treatments import CLEARED, Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.contracts.clear_results import clearing_due, tool_uses
from chat_proxy.compaction.contracts.clear_thinking import without_thinking
from chat_proxy.compaction.pipeline import Step
from chat_proxy.proxy.compacting.adopt import keep_results
from chat_proxy.proxy.session.request import Cleared, CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import CompactionSession
from chat_proxy.proxy.sizing.request_counter import RequestCounter
from chat_proxy.wires.contracts.contract import ClearResults

CLEAR_THINKING = "clear_thinking"


class Found(NamedTuple):
    """A checkpoint of a request's history, and whether it was made anew for this request."""

    checkpoint: Checkpoint | None
    is_new: bool = False


async def clear_thinking(
    compaction: CompactionRequest, trimmed: CompactionResult, counter: RequestCounter
) -> CompactionResult:
    """Return a trimmed request without the thinking that its client wants to be cleared."""
    wish = compaction.clear_thinking
    if wish is None:
        return trimmed
    cleared = await asyncio.to_thread(without_thinking, trimmed.conversation, wish)
    if cleared.conversation is trimmed.conversation:
        return trimmed
    token_count = await counter.count_conversation(cleared.conversation)
    tokens = max(0, trimmed.token_count.tokens - token_count.tokens)
    return trimmed._replace(
        conversation=cleared.conversation,
        token_count=token_count,
        steps=(*trimmed.steps, Step(CLEAR_THINKING, cleared.conversation)),
        cleared=Cleared(thinking_turns=cleared.turns, thinking_tokens=tokens),
    )


async def find_cleared(session: CompactionSession, *, anew: bool = False) -> Found:
    """Return the checkpoint of a request, with all that its client wants to be cleared now."""
    found = await session.find(anew=anew)
    wish = session.compaction.clear_results
    return Found(found) if wish is None else await _cleared(session, found, wish)


async def _cleared(
    session: CompactionSession, found: Checkpoint | None, wish: ClearResults
) -> Found:
    applied = await session.apply(found)
    tokens = (await session.outcome(applied)).token_count.tokens
    trimmed = session.trimmed.conversation
    uses = await asyncio.to_thread(tool_uses, trimmed, applied.folded_until)
    due = clearing_due(uses, tokens, applied.treatments, wish)
    if due is None:
        return Found(found)
    before = found or Checkpoint(0, Treatments(), 0)
    treatments = before.treatments | due
    cleared = replace(
        before,
        until=session.history.seam_from(max(before.until, treatments.until)),
        treatments=treatments,
        names_places=await keep_results(session, trimmed, treatments, session.originals),
    )
    left = (await session.outcome(await session.apply(cleared))).token_count.tokens
    if tokens - left < wish.least_tokens:
        return Found(found)
    await session.keep(cleared)
    return Found(cleared, is_new=True)


def with_cleared(
    session: CompactionSession, found: Checkpoint | None, result: CompactionResult
) -> CompactionResult:
    """Return a result that says how many tool uses it shows cleared, and what that saved.

    A result that is shorter than its note stays, and does not count.
    """
    if session.compaction.clear_results is None or found is None:
        return result
    treatments = found.treatments
    results = {place.origin for place, size in treatments.short.items() if size == CLEARED}
    calls = {place.origin for place, size in treatments.calls.items() if size == CLEARED}
    whole = dict(
        zip(session.trimmed.conversation.origins, session.trimmed.token_count.sizes, strict=True)
    )
    shown = dict(zip(result.conversation.origins, result.token_count.sizes, strict=True))
    saved = sum(whole[at] - shown[at] for at in results | calls if at in shown and at in whole)
    given = dict(
        zip(session.trimmed.conversation.origins, session.trimmed.conversation.fields, strict=True)
    )
    sent = zip(result.conversation.origins, result.conversation.fields, strict=True)
    uses = sum(origin in results and fields is not given[origin] for origin, fields in sent)
    cleared = result.cleared._replace(results=uses, result_tokens=max(0, saved))
    return result._replace(cleared=cleared)
