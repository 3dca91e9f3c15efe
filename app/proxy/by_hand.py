"""Conversations that were compacted by hand: their summaries hold from then on, at any size."""

from app.compaction.budget import Budget
from app.compaction.checkpoint import Checkpoint
from app.compaction.clearing import Clearing
from app.proxy.case import Case, Outcome
from app.proxy.room import Room
from app.proxy.services import Services

KIND = "by-hand"
ASSUMED_WINDOW = 32_768
ASSUMED_ROOM = 4
_ANY_CONVERSATION = b"any conversation of this scope"


async def note_by_hand(case: Case, services: Services) -> None:
    """Remember that a conversation of this tenant and model was compacted by hand.

    Requests far below the trigger are not looked up otherwise, to be cheap.
    """
    mark = Checkpoint(0, Clearing(), 0)
    await services.checkpoints.keep(case.scope, _ANY_CONVERSATION, mark, KIND)


def is_untouched(case: Case, services: Services) -> bool:
    """Tell whether surely nobody compacted this conversation by hand, as far as is known."""
    is_unmarked = services.checkpoints.was_unmarked(case.tenant, case.to.fingerprint, KIND)
    return is_unmarked or not len(case.conversation)


async def is_by_hand(case: Case, services: Services) -> bool:
    """Tell whether a conversation that is not surely untouched may have been compacted by hand."""
    return await services.checkpoints.is_marked(case.scope, _ANY_CONVERSATION, KIND)


async def repeated(room: Room) -> Outcome:
    """Repeat what was decided about this history before, and decide nothing anew."""
    return await room.outcome(await room.stand(await room.find()))


def budget_by_hand(case: Case) -> Budget:
    """Return the request's budget; where no window is known, one that it does not press against.

    The upstream has taken the conversation so far, and says so if it does not take the question.
    """
    measured = case.measured
    if measured.budget is not None:
        return measured.budget
    window = max(ASSUMED_WINDOW, ASSUMED_ROOM * measured.tokens)
    return Budget.of(window, case.request.options, case.policy.budget)
