"""A mark for manual compactions: their summaries apply from then on, at any size."""

from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.proxy.session.checkpoints import Checkpoints
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import CompactionSession

MANUAL = "by-hand"
ASSUMED_WINDOW = 32_768
ASSUMED_FACTOR = 4
_ANY_CONVERSATION = b"any conversation of this scope"


async def mark_manual(compaction: CompactionRequest, checkpoints: Checkpoints) -> None:
    """Store that a conversation of this tenant and model was compacted manually.

    Without the mark, requests far below the trigger are not looked up at all.
    """
    mark = Checkpoint(0, Clearing(), 0)
    await checkpoints.keep(compaction.scope, _ANY_CONVERSATION, mark, MANUAL)


async def is_marked_manual(compaction: CompactionRequest, checkpoints: Checkpoints) -> bool:
    """Return whether conversations of this tenant and model may have been compacted manually."""
    is_unmarked = checkpoints.was_unmarked(compaction.tenant, compaction.route.fingerprint, MANUAL)
    if is_unmarked or not len(compaction.conversation):
        return False
    return await checkpoints.is_marked(compaction.scope, _ANY_CONVERSATION, MANUAL)


async def repeat_decisions(session: CompactionSession) -> CompactionResult:
    """Apply the decisions that were made about this history before; make no new ones."""
    return await session.outcome(await session.apply_checkpoint(await session.find()))


def budget_or_assumed(compaction: CompactionRequest) -> Budget:
    """Return the request's budget; if no window is known, one that the request surely fits.

    The upstream has accepted the conversation so far, and refuses a summary query that is too long.
    """
    measured = compaction.measured
    if measured.budget is not None:
        return measured.budget
    window = max(ASSUMED_WINDOW, ASSUMED_FACTOR * measured.tokens)
    return Budget.of(window, compaction.request.options, compaction.policy.budget)
