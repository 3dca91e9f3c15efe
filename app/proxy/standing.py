"""Where a conversation stands: trimmed, cleared and folded as it was before."""

from dataclasses import dataclass

from app.chat.conversation import Conversation
from app.compaction.checkpoint import Checkpoint, index_of
from app.compaction.clearing import Clearing
from app.compaction.pipeline import Pipeline, Step
from app.compaction.summary.fold import fold

SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Standing:
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


def stand(trimmed: Conversation, checkpoint: Checkpoint | None, pipeline: Pipeline) -> Standing:
    """Do to a trimmed conversation what a checkpoint says."""
    if checkpoint is None:
        return Standing(trimmed, trimmed, (), None)
    steps = pipeline.repeat(trimmed, checkpoint.clearing)
    unfolded = steps[-1].conversation if steps else trimmed
    if not checkpoint.folded_until:
        return Standing(unfolded, unfolded, steps, checkpoint)
    visible = fold(unfolded, index_of(unfolded, checkpoint.folded_until), checkpoint.text)
    return Standing(unfolded, visible, (*steps, Step(SUMMARY, visible)), checkpoint)
