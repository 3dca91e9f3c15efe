"""What making room for a request works with: its case, its budget, its history."""

import asyncio
from dataclasses import dataclass, replace
from functools import partial

from app.compaction.budget import Budget
from app.compaction.checkpoint import Checkpoint
from app.compaction.summary.plan import answered_until
from app.proxy.case import Case, Outcome
from app.proxy.checkpoints import KIND
from app.proxy.history import History
from app.proxy.scales import Scales
from app.proxy.services import Services
from app.proxy.standing import Standing, stand

INLINE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Room:
    """One request that presses against its window."""

    case: Case
    budget: Budget
    scales: Scales
    history: History
    services: Services
    trimmed: Outcome
    """The request behind the trimming stages, before anything else."""

    async def find(self, kind: str = KIND, *, anew: bool = False) -> Checkpoint | None:
        """Return what an earlier request of this conversation left behind."""
        history = self.history
        answered = answered_until(self.case.conversation)
        seams = [seam for seam in history.seams if seam <= answered]
        return await self.services.checkpoints.find(
            self.case.scope, seams, history.links, kind, anew=anew
        )

    async def keep(self, checkpoint: Checkpoint) -> None:
        """Leave a checkpoint behind for later requests, unless this is only a look."""
        if not self.case.is_dry:
            history, until = self.history, checkpoint.until
            await self.services.checkpoints.keep(
                self.case.scope, history.link_at(until), checkpoint, root=history.root_at(until)
            )

    async def stand(self, checkpoint: Checkpoint | None) -> Standing:
        """Return where the conversation stands behind a checkpoint."""
        work = partial(stand, self.trimmed.conversation, checkpoint, self.case.policy.pipeline)
        if checkpoint is None or len(self.case.request.body) <= INLINE_BYTES:
            return work()
        return await asyncio.to_thread(work)

    def sign(self, content: bytes) -> str:
        """Return the mark by which a text of ours is known when this tenant sends it back."""
        tenant = self.case.tenant.encode()
        return self.services.store.address(b"marker", tenant, content)[:16].hex()

    async def outcome(self, standing: Standing) -> Outcome:
        """Return what is sent of a conversation that stands so."""
        if not standing.steps:
            return self.trimmed
        return self.trimmed._replace(
            conversation=standing.visible,
            weight=await self.scales.weigh(standing.visible),
            steps=(*self.trimmed.steps, *standing.steps),
            label="reused" if standing.folded_until else "none",
        )

    async def adopted(self, checkpoint: Checkpoint, label: str, below: int) -> Outcome | None:
        """Return what is sent by a new checkpoint, which later requests repeat; it must be less."""
        outcome = await self.outcome(await self.stand(checkpoint))
        if outcome.weight.tokens >= below:
            return None
        await self.keep(replace(checkpoint, tokens=outcome.weight.tokens))
        return outcome._replace(label=label, is_break=True)
