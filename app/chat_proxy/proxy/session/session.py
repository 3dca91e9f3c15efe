"""Where a conversation stands: trimmed, cleared and folded as it was before."""

import asyncio
from dataclasses import dataclass, replace
from functools import partial

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.checkpoint import Checkpoint, index_of
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.pipeline import Pipeline, Step
from chat_proxy.compaction.summary.fold import fold
from chat_proxy.compaction.summary.plan import answered_until
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.checkpoints import KIND
from chat_proxy.proxy.session.history_hashes import HistoryHashes
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.sizing.request_counter import RequestCounter

SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class AppliedCheckpoint:
    """A conversation behind a checkpoint: `unfolded` has all that was trimmed and cleared only."""

    unfolded: Conversation
    visible: Conversation
    steps: tuple[Step, ...]
    checkpoint: Checkpoint | None

    @property
    def clearing(self) -> Clearing:
        """What is cleared by now."""
        return self.checkpoint.clearing if self.checkpoint else Clearing()

    @property
    def folded_until(self) -> int:
        """How many of the client's messages a summary stands for by now."""
        return self.checkpoint.folded_until if self.checkpoint else 0

    @property
    def start(self) -> int:
        """Where the messages begin that no summary stands for."""
        return max(self.unfolded.instructions, index_of(self.unfolded, self.folded_until))


def apply_checkpoint(
    trimmed: Conversation, checkpoint: Checkpoint | None, pipeline: Pipeline
) -> AppliedCheckpoint:
    """Do to a trimmed conversation what a checkpoint says."""
    if checkpoint is None:
        return AppliedCheckpoint(trimmed, trimmed, (), None)
    steps = pipeline.repeat(trimmed, checkpoint.clearing)
    unfolded = steps[-1].conversation if steps else trimmed
    if not checkpoint.folded_until:
        return AppliedCheckpoint(unfolded, unfolded, steps, checkpoint)
    visible = fold(unfolded, index_of(unfolded, checkpoint.folded_until), checkpoint.text)
    return AppliedCheckpoint(unfolded, visible, (*steps, Step(SUMMARY, visible)), checkpoint)


INLINE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CompactionSession:
    """One request that presses against its window."""

    compaction: CompactionRequest
    budget: Budget
    request_counter: RequestCounter
    history: HistoryHashes
    services: Services
    trimmed: CompactionResult
    """The request behind the trimming stages, before anything else."""

    async def find(self, kind: str = KIND, *, anew: bool = False) -> Checkpoint | None:
        """Return what an earlier request of this conversation left behind."""
        history = self.history
        answered = answered_until(self.compaction.conversation)
        seams = [seam for seam in history.seams if seam <= answered]
        return await self.services.checkpoints.find(
            self.compaction.scope, seams, history.links, kind, anew=anew
        )

    async def keep(self, checkpoint: Checkpoint) -> None:
        """Leave a checkpoint behind for later requests, unless this is only a look."""
        if not self.compaction.is_dry_run:
            history, until = self.history, checkpoint.until
            await self.services.checkpoints.keep(
                self.compaction.scope,
                history.link_at(until),
                checkpoint,
                root=history.root_at(until),
            )

    async def apply_checkpoint(self, checkpoint: Checkpoint | None) -> AppliedCheckpoint:
        """Return where the conversation stands behind a checkpoint."""
        work = partial(
            apply_checkpoint, self.trimmed.conversation, checkpoint, self.compaction.policy.pipeline
        )
        if checkpoint is None or len(self.compaction.request.body) <= INLINE_BYTES:
            return work()
        return await asyncio.to_thread(work)

    def sign(self, content: bytes) -> str:
        """Return the mark by which a text of ours is known when this tenant sends it back."""
        tenant = self.compaction.tenant.encode()
        return self.services.store.address(b"marker", tenant, content)[:16].hex()

    async def outcome(self, applied: AppliedCheckpoint) -> CompactionResult:
        """Return what is sent of a conversation that stands so."""
        if not applied.steps:
            return self.trimmed
        return self.trimmed._replace(
            conversation=applied.visible,
            token_count=await self.request_counter.count_conversation(applied.visible),
            steps=(*self.trimmed.steps, *applied.steps),
            label="reused" if applied.folded_until else "none",
        )

    async def adopted(
        self, checkpoint: Checkpoint, label: str, below: int
    ) -> CompactionResult | None:
        """Return what is sent by a new checkpoint, which later requests repeat; it must be less."""
        outcome = await self.outcome(await self.apply_checkpoint(checkpoint))
        if outcome.token_count.tokens >= below:
            return None
        await self.keep(replace(checkpoint, tokens=outcome.token_count.tokens))
        return outcome._replace(label=label, is_break=True)
