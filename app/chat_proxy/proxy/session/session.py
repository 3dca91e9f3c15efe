"""A compaction session: earlier decisions about a request's history, applied to it."""

from dataclasses import dataclass
from functools import partial

from chat_proxy.chat.conversation import Conversation, answered_until
from chat_proxy.compaction.ageing.apply import (
    NO_IMAGES,
    Name,
    SmallerImages,
    Where,
    age,
    nowhere,
    numbered,
)
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.checkpoint import Checkpoint, index_of
from chat_proxy.compaction.pipeline import Step
from chat_proxy.compaction.recall.references import place_note, reference, without_contents
from chat_proxy.compaction.summary.fold import fold
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.session.images.image_services import ImageServices
from chat_proxy.proxy.session.images.smaller_images import smaller_images
from chat_proxy.proxy.session.originals import Originals
from chat_proxy.proxy.session.recognition.checkpoints import KIND, Checkpoints
from chat_proxy.proxy.session.recognition.history import History
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.sizing.request_counter import RequestCounter

SUMMARY = "summary"
AGE_TOOL_OUTPUT = "age_tool_output"
AGE_MEDIA = "age_media"
SCALE_IMAGES = "scale_images"
BYTES_PER_MESSAGE = 512
"""A message, however short, takes as long to age and fold as so many bytes."""


@dataclass(frozen=True, slots=True)
class AppliedCheckpoint:
    """A conversation with a checkpoint applied."""

    trimmed: Conversation
    """The conversation after the trimming stages: nothing is aged, nothing is folded."""
    unfolded: Conversation
    """The conversation with old results aged, but nothing folded."""
    visible: Conversation
    """The conversation as it is sent."""
    steps: tuple[Step, ...]
    checkpoint: Checkpoint | None

    @property
    def treatments(self) -> Treatments:
        """What is aged so far."""
        return self.checkpoint.treatments if self.checkpoint else Treatments()

    @property
    def folded_until(self) -> int:
        """How many of the client's messages the folded text replaces."""
        return self.checkpoint.folded_until if self.checkpoint else 0

    @property
    def summarised_until(self) -> int:
        """How many of the client's messages a model has summarised."""
        return self.checkpoint.summarised_until if self.checkpoint else 0

    @property
    def start(self) -> int:
        """The index of the first message that is not folded."""
        return max(self.unfolded.instructions, index_of(self.unfolded, self.folded_until))


def apply_checkpoint(
    trimmed: Conversation,
    checkpoint: Checkpoint | None,
    where: Where,
    smaller: SmallerImages = NO_IMAGES,
    name: Name = numbered,
    text: str = "",
) -> AppliedCheckpoint:
    """Age and fold a trimmed conversation as a checkpoint specifies.

    `text` stands in place of the checkpoint's own.
    """
    if checkpoint is None:
        return AppliedCheckpoint(trimmed, trimmed, trimmed, (), None)
    treatments = checkpoint.treatments
    media = Treatments(media=treatments.media, told=treatments.told)
    scaled = Treatments(scaled=treatments.scaled)
    others = Treatments(treatments.lines, treatments.short, treatments.calls)
    unfolded, steps = trimmed, []
    for stage, part in ((AGE_TOOL_OUTPUT, others), (SCALE_IMAGES, scaled), (AGE_MEDIA, media)):
        named = where if checkpoint.names_places else nowhere
        aged = age(unfolded, part, named, trimmed, smaller, name)
        if aged is not unfolded:
            steps.append(Step(stage, aged))
            unfolded = aged
    visible = unfolded
    if checkpoint.text:
        text = text or checkpoint.text
        visible = fold(unfolded, index_of(unfolded, checkpoint.folded_until), text)
        steps.append(Step(SUMMARY, visible))
    return AppliedCheckpoint(trimmed, unfolded, visible, tuple(steps), checkpoint)


@dataclass(frozen=True, slots=True)
class CompactionSession:
    """One request that is near its window, with the history it continues."""

    compaction: CompactionRequest
    budget: Budget
    request_counter: RequestCounter
    history: History
    checkpoints: Checkpoints
    trimmed: CompactionResult
    """The request after the trimming stages, before anything else."""
    originals: Originals
    images: ImageServices

    async def find(self, kind: str = KIND, *, anew: bool = False) -> Checkpoint | None:
        """Return the checkpoint that an earlier request of this conversation stored."""
        answered = answered_until(self.compaction.conversation)
        return await self.checkpoints.find(
            self.compaction.scope, self.history, answered, kind, anew=anew
        )

    async def keep(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint for later requests, unless this is a dry run or has none."""
        if not self.compaction.is_dry_run and not self.compaction.client_compacting:
            await self.checkpoints.keep(self.compaction.scope, self.history, checkpoint)

    async def apply(self, checkpoint: Checkpoint | None) -> AppliedCheckpoint:
        """Return the conversation with a checkpoint applied.

        The whole texts that its notes name are stored: the client may send them in another form
        than when the checkpoint was made, and they must not expire while they are in use.
        """
        named: dict[str, str] = {}
        where, name = self._naming(checkpoint, named)
        scaled = checkpoint.treatments.scaled if checkpoint else {}
        smaller = await smaller_images(
            self.trimmed.conversation, scaled, self.compaction.tenant, self.images.scaled
        )
        text = checkpoint.text if checkpoint else ""
        if not self.compaction.offers_recall:
            text = without_contents(text)
        work = partial(
            apply_checkpoint, self.trimmed.conversation, checkpoint, where, smaller, name, text
        )
        size = self._size_of_work if checkpoint else 0
        applied = await run_inline_or_in_thread(work, size)
        if named and not self.compaction.is_dry_run:
            await self.originals.keep_results(self.compaction.tenant, named)
        return applied

    @property
    def _size_of_work(self) -> int:
        messages = len(self.trimmed.conversation)
        return max(self.compaction.request.work_bytes, messages * BYTES_PER_MESSAGE)

    def _naming(self, checkpoint: Checkpoint | None, named: dict[str, str]) -> tuple[Where, Name]:
        """Return how notes name the place of a whole text, and how they name messages.

        Where the model can ask for messages, by their number: that of the first request, if the
        client has dropped messages since.
        """
        if checkpoint is not None and self.compaction.offers_recall:
            missing = checkpoint.missing
            return (
                partial(self._recall_place, named, missing),
                lambda origin: reference(origin + missing),
            )
        return partial(self._place_of, named), numbered

    def _place_of(self, named: dict[str, str], text: str, _: int) -> str:
        """Return the note that names the place of a whole tool result, and remember its text."""
        name = self.originals.id_of(self.compaction.tenant, text)
        named[name] = text
        return self.originals.place_of(name)

    def _recall_place(self, named: dict[str, str], missing: int, text: str, origin: int) -> str:
        """Return the note with the id of a message; one that names files names them as well."""
        named[self.originals.id_of(self.compaction.tenant, text)] = text
        files = self._place_of(named, text, origin) if self.originals.file_of else ""
        return files or place_note(origin + missing)

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
            checkpoint=applied.checkpoint,
            history_id=self._history_id(applied),
        )

    def _history_id(self, applied: AppliedCheckpoint) -> str:
        if applied.checkpoint is None or not applied.folded_until:
            return ""
        return self.originals.history_id(self.compaction.tenant, applied.checkpoint.sources)
