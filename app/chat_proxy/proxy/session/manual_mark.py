"""Conversations that were compacted by hand: their summaries hold from then on, at any size."""

from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import CompactionSession

KIND = "by-hand"
ASSUMED_WINDOW = 32_768
ASSUMED_ROOM = 4
_ANY_CONVERSATION = b"any conversation of this scope"


async def mark_manual(compaction: CompactionRequest, services: Services) -> None:
    """Remember that a conversation of this tenant and model was compacted by hand.

    Requests far below the trigger are not looked up otherwise, to be cheap.
    """
    mark = Checkpoint(0, Clearing(), 0)
    await services.checkpoints.keep(compaction.scope, _ANY_CONVERSATION, mark, KIND)


def is_surely_unmarked(compaction: CompactionRequest, services: Services) -> bool:
    """Tell whether surely nobody compacted this conversation by hand, as far as is known."""
    is_unmarked = services.checkpoints.was_unmarked(
        compaction.tenant, compaction.to.fingerprint, KIND
    )
    return is_unmarked or not len(compaction.conversation)


async def is_marked_manual(compaction: CompactionRequest, services: Services) -> bool:
    """Tell whether a conversation that is not surely untouched may have been compacted by hand."""
    return await services.checkpoints.is_marked(compaction.scope, _ANY_CONVERSATION, KIND)


async def repeat_decisions(session: CompactionSession) -> CompactionResult:
    """Repeat what was decided about this history before, and decide nothing anew."""
    return await session.outcome(await session.apply_checkpoint(await session.find()))


def budget_or_assumed(compaction: CompactionRequest) -> Budget:
    """Return the request's budget; where no window is known, one that it does not press against.

    The upstream has taken the conversation so far, and says so if it does not take the question.
    """
    measured = compaction.measured
    if measured.budget is not None:
        return measured.budget
    window = max(ASSUMED_WINDOW, ASSUMED_ROOM * measured.tokens)
    return Budget.of(window, compaction.request.options, compaction.policy.budget)
