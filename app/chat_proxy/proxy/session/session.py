"""A compaction session: earlier decisions about a request's history, applied to it."""

from dataclasses import dataclass, replace
from functools import partial

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.checkpoint import Checkpoint, index_of
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.pipeline import Pipeline, Step
from chat_proxy.compaction.summary.fold import fold
from chat_proxy.compaction.summary.plan import answered_until
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.session.checkpoints import KIND, Checkpoints
from chat_proxy.proxy.session.history_hashes import HistoryHashes
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.sizing.request_counter import RequestCounter

SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class AppliedCheckpoint:
    """A conversation with a checkpoint applied; `unfolded` is cleared but not folded."""

    unfolded: Conversation
    visible: Conversation
    steps: tuple[Step, ...]
    checkpoint: Checkpoint | None

    @property
    def clearing(self) -> Clearing:
        """What is cleared so far."""
        return self.checkpoint.clearing if self.checkpoint else Clearing()

    @property
    def folded_until(self) -> int:
        """How many of the client's messages the summary replaces."""
        return self.checkpoint.folded_until if self.checkpoint else 0

    @property
    def start(self) -> int:
        """The index of the first message that is not folded."""
        return max(self.unfolded.instructions, index_of(self.unfolded, self.folded_until))


def apply_checkpoint(
    trimmed: Conversation, checkpoint: Checkpoint | None, pipeline: Pipeline
) -> AppliedCheckpoint:
    """Clear and fold a trimmed conversation as a checkpoint specifies."""
    if checkpoint is None:
        return AppliedCheckpoint(trimmed, trimmed, (), None)
    steps = pipeline.repeat(trimmed, checkpoint.clearing)
    unfolded = steps[-1].conversation if steps else trimmed
    if not checkpoint.folded_until:
        return AppliedCheckpoint(unfolded, unfolded, steps, checkpoint)
    visible = fold(unfolded, index_of(unfolded, checkpoint.folded_until), checkpoint.text)
    return AppliedCheckpoint(unfolded, visible, (*steps, Step(SUMMARY, visible)), checkpoint)


@dataclass(frozen=True, slots=True)
class CompactionSession:
    """One request that is near its window, with the history it continues."""

    compaction: CompactionRequest
    budget: Budget
    request_counter: RequestCounter
    history: HistoryHashes
    checkpoints: Checkpoints
    trimmed: CompactionResult
    """The request after the trimming stages, before anything else."""

    async def find(self, kind: str = KIND, *, anew: bool = False) -> Checkpoint | None:
        """Return the checkpoint that an earlier request of this conversation stored."""
        history = self.history
        answered = answered_until(self.compaction.conversation)
        seams = [seam for seam in history.seams if seam <= answered]
        return await self.checkpoints.find(
            self.compaction.scope, seams, history.links, kind, anew=anew
        )

    async def keep(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint for later requests, unless this is a dry run."""
        if not self.compaction.is_dry_run:
            history, until = self.history, checkpoint.until
            await self.checkpoints.keep(
                self.compaction.scope,
                history.link_at(until),
                checkpoint,
                root=history.root_at(until),
            )

    async def apply_checkpoint(self, checkpoint: Checkpoint | None) -> AppliedCheckpoint:
        """Return the conversation with a checkpoint applied."""
        work = partial(
            apply_checkpoint, self.trimmed.conversation, checkpoint, self.compaction.policy.pipeline
        )
        size = len(self.compaction.request.body) if checkpoint else 0
        return await run_inline_or_in_thread(work, size)

    def sign(self, content: bytes) -> str:
        """Return the MAC by which a text of ours is recognised when this tenant sends it back."""
        tenant = self.compaction.tenant.encode()
        return self.checkpoints.store.address(b"marker", tenant, content)[:16].hex()

    async def outcome(self, applied: AppliedCheckpoint) -> CompactionResult:
        """Return the request as it is sent with a checkpoint applied."""
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
        """Store a new checkpoint and return the request with it; None if it is not smaller."""
        outcome = await self.outcome(await self.apply_checkpoint(checkpoint))
        if outcome.token_count.tokens >= below:
            return None
        await self.keep(replace(checkpoint, tokens=outcome.token_count.tokens))
        return outcome._replace(label=label, is_break=True)
