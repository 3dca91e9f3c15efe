"""A mark for manual compactions: their summaries apply from then on, at any size."""

from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.session.recognition.checkpoints import Checkpoints
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import CompactionSession

MANUAL = "by-hand"
_ANY_CONVERSATION = b"any conversation of this scope"


async def mark_manual(compaction: CompactionRequest, checkpoints: Checkpoints) -> None:
    """Store that a conversation of this tenant and model was compacted manually.

    Without the mark, requests far below the trigger are not looked up at all.
    """
    mark = Checkpoint(0, Treatments(), 0)
    await checkpoints.mark(compaction.scope, _ANY_CONVERSATION, mark, MANUAL)


async def is_marked_manual(compaction: CompactionRequest, checkpoints: Checkpoints) -> bool:
    """Return whether conversations of this tenant and model may have been compacted manually."""
    is_unmarked = checkpoints.was_unmarked(compaction.tenant, compaction.route.fingerprint, MANUAL)
    if is_unmarked or not len(compaction.conversation):
        return False
    return await checkpoints.is_marked(compaction.scope, _ANY_CONVERSATION, MANUAL)


async def repeat_decisions(session: CompactionSession) -> CompactionResult:
    """Apply the decisions that were made about this history before; make no new ones."""
    return await session.outcome(await session.apply(await session.find()))
