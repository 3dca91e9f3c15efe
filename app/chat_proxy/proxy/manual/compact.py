"""Manual compaction: fold all but the last turns of a conversation, whatever its size."""

import asyncio
import time
from dataclasses import dataclass, replace

from chat_proxy.chat.conversation import Conversation, end_by_turns
from chat_proxy.compaction.checkpoint import Checkpoint, index_of
from chat_proxy.compaction.pipeline import Step
from chat_proxy.compaction.planner.plan import Plan
from chat_proxy.compaction.planner.tail import wanted_room
from chat_proxy.compaction.planner.view import View
from chat_proxy.compaction.recall.references import without_contents
from chat_proxy.compaction.summary.fold import fold
from chat_proxy.compaction.summary.marker import add_marker
from chat_proxy.proxy.compacting.adopt import Adoption, planned_checkpoint, write_fold
from chat_proxy.proxy.compacting.open_session import open_session, view_of
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.compacting.trim import trim
from chat_proxy.proxy.session.manual_mark import mark_manual
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult, unchanged_result
from chat_proxy.proxy.session.session import SUMMARY, AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.sizing.measure import TokenCount
from chat_proxy.proxy.summaries.draft import Span, SummaryDraft
from chat_proxy.proxy.summaries.jobs import PREPARED, SummaryJob
from chat_proxy.proxy.summaries.obtain import job_of
from chat_proxy.telemetry.record import RequestRecord

KEPT_TURNS = 1
FRAME_ROOM = 240
"""About the tokens that a folded text needs beside its summary."""
NOTHING_TO_FOLD = "There is nothing to compact yet: the conversation has no older turns."
TOO_LITTLE = "There is little to compact yet: a summary would be no shorter than the messages."
SWITCHED_OFF = "Summaries are switched off on this proxy, so nothing was compacted."


@dataclass(frozen=True, slots=True)
class ManualOptions:
    """The user's options: how many of the last turns stay, and an instruction for the summary."""

    keep: int = KEPT_TURNS
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class ManualResult:
    """The result of a manual compaction."""

    conversation: Conversation
    """The client's own messages, the older ones folded."""
    label: str
    tokens_before: int
    tokens_after: int
    checkpoint: Checkpoint | None = None
    note: str = ""
    """A message for the user besides the figures."""
    waited_seconds: float = 0.0
    """How long the request waited for the summary."""
    token_count: TokenCount | None = None
    """The tokens of the folded conversation; None if nothing was folded."""

    @property
    def result(self) -> CompactionResult | None:
        """What was done, in the form of any compaction; None if nothing was folded."""
        if self.token_count is None:
            return None
        steps = (Step(SUMMARY, self.conversation),)
        return CompactionResult(self.conversation, self.token_count, steps, label=self.label)

    @property
    def has_failed(self) -> bool:
        """Whether a summary was needed and could not be written."""
        return self.label == "failed-open"

    @property
    def covered(self) -> int:
        """How many messages of the client's list the summary covers, instructions included."""
        return self.checkpoint.folded_until if self.checkpoint else 0

    @property
    def messages_compacted(self) -> int:
        """How many messages the summary replaces."""
        return self.covered - self.conversation.instructions if self.checkpoint else 0

    @property
    def summary(self) -> str:
        """The summary alone."""
        return self.checkpoint.summary if self.checkpoint else ""


async def compact_manually(
    compaction: CompactionRequest, services: CompactionServices, options: ManualOptions
) -> ManualResult:
    """Fold all but the last turns of a conversation, and store the result for later requests."""
    if not compaction.policy.summary.enabled:
        return unchanged(compaction, "none", SWITCHED_OFF)
    if len(compaction.conversation.turns) <= options.keep:
        return unchanged(compaction, "none", NOTHING_TO_FOLD)
    trimmed = await trim(compaction, services)
    if len(trimmed.conversation) < len(compaction.conversation):
        # Turns that a stage drops must be summarised too.
        trimmed = unchanged_result(compaction)
    else:
        trimmed = CompactionResult(trimmed.conversation, trimmed.token_count)
    session = await open_session(compaction, trimmed, services)
    started = time.perf_counter()
    result = await ManualCompaction(session, options, services).compact()
    return replace(result, waited_seconds=time.perf_counter() - started)


def unchanged(compaction: CompactionRequest, label: str, note: str) -> ManualResult:
    """Return the conversation unchanged."""
    tokens = compaction.measured.tokens
    return ManualResult(compaction.conversation, label, tokens, tokens, note=note)


def record_manual(record: RequestRecord, done: ManualResult, compaction: CompactionRequest) -> None:
    """Record the result of a manual compaction."""
    if (window := compaction.measured.window) is not None:
        record.window, record.window_source = window.tokens, window.source
    messages = len(compaction.conversation)
    record.compaction = done.label
    record.tokens_before, record.tokens_after = done.tokens_before, done.tokens_after
    record.messages_before, record.messages_after = messages, len(done.conversation)
    record.stages = (SUMMARY,) if done.checkpoint else ()
    record.is_break = done.label == "built"
    record.summary_wait_seconds = done.waited_seconds
    if done.has_failed:
        record.explain(f"No summary was written: {done.note}")


class ManualCompaction:
    """One manual compaction."""

    def __init__(
        self, session: CompactionSession, options: ManualOptions, services: CompactionServices
    ) -> None:
        self._session = session
        self._options = options
        self._services = services

    async def compact(self) -> ManualResult:
        """Summarise the messages that no earlier summary covers.

        An earlier summary that covers more, or was written without this instruction, is replaced.
        """
        session = self._session
        found = await session.find()
        applied = await session.apply(found)
        end = end_by_turns(applied.unfolded, self._options.keep)
        goal = boundary_at(session, applied, end)
        if end <= applied.unfolded.instructions:
            return unchanged(session.compaction, "none", NOTHING_TO_FOLD)
        if applied.summarised_until == goal and not self._options.instruction:
            return await self._result(applied.checkpoint, "reused")
        if applied.folded_until > goal or applied.summarised_until >= goal:
            applied = await session.apply(without_fold(found) if found else None)
        draft = SummaryDraft(session, applied, wish=self._options.instruction)
        if end <= draft.start:
            return unchanged(session.compaction, "none", NOTHING_TO_FOLD)
        written = await self._written(draft, end)
        if written is not None:
            return await self._adopted(applied, written, found)
        jobs = self._services.summaries.jobs
        failure = jobs.last_failure(session.compaction.scope, session.history)
        if failure.reason == "no_gain":
            return await self._result(found, "reused", TOO_LITTLE)
        return unchanged(session.compaction, "failed-open", failure.sentence)

    async def _written(self, draft: SummaryDraft, end: int) -> Checkpoint | None:
        """Return the summary up to `end`, None if it could not be written."""
        session, services = self._session, self._services.summaries
        tokens = (await session.outcome(draft.applied)).token_count.tokens
        jobs = services.jobs
        job = await self._job(draft, Span(draft.start, end), tokens)
        return await jobs.wait(jobs.begin(job))

    async def _job(self, draft: SummaryDraft, span: Span, tokens: int) -> SummaryJob:
        """Return the job of a summary; it does not accept a prepared summary that covers less."""
        job = job_of(draft, span, tokens, self._services.summaries)
        prepared = await self._session.find(PREPARED)
        if prepared is not None and job.start < prepared.summarised_until < draft.boundary(span):
            job = replace(job, start=prepared.summarised_until)
        return job

    async def _adopted(
        self, applied: AppliedCheckpoint, written: Checkpoint, found: Checkpoint | None
    ) -> ManualResult:
        """Fold the conversation with a new summary; leave it if that is not shorter."""
        session = self._session
        before = (await session.outcome(applied)).token_count.tokens
        view = await view_of(session, applied)
        end = index_of(applied.unfolded, written.summarised_until)
        room = await asyncio.to_thread(manual_room, view, end, written.summary)
        plan = Plan("folded", end, room, applied.treatments, 0, {})
        adoption = Adoption(session, applied, view, plan, written.summary, written.summarised_until)
        originals = self._services.originals
        folded = await write_fold(adoption, originals)
        result = await planned_checkpoint(adoption, folded, originals)
        outcome = await session.outcome(await session.apply(result))
        if outcome.token_count.tokens >= before:
            return await self._result(found, "reused", TOO_LITTLE)
        # Replace an earlier checkpoint that covers more: it would be found first.
        until = max(result.until, found.until if found else 0)
        result = replace(result, until=until, tokens=outcome.token_count.tokens)
        await session.keep(result)
        return await self._result(result, "built")

    async def _result(
        self, checkpoint: Checkpoint | None, label: str, note: str = ""
    ) -> ManualResult:
        """Return the client's own messages folded by a checkpoint; mark it for later requests."""
        session, compaction = self._session, self._session.compaction
        if checkpoint is None or not checkpoint.folded_until:
            return unchanged(compaction, "none", note)
        await mark_manual(compaction, session.checkpoints)
        text = self._carried(checkpoint)
        folded = fold(compaction.conversation, checkpoint.folded_until, text)
        after = await session.request_counter.count_conversation(folded)
        before = compaction.measured.tokens
        return ManualResult(
            folded, label, before, after.tokens, checkpoint, note, token_count=after
        )

    def _carried(self, checkpoint: Checkpoint) -> str:
        """Return a folded text as the client may send it: ids of what it replaces name others."""
        unmarked = checkpoint.text.rpartition("\n")[0]
        text = without_contents(unmarked)
        if text == unmarked:
            return checkpoint.text
        return add_marker(text, checkpoint.folded_until, self._session.sign)


def boundary_at(session: CompactionSession, applied: AppliedCheckpoint, end: int) -> int:
    """Return how many of the client's messages a fold at `end` covers."""
    return SummaryDraft(session, applied).boundary(Span(0, end))


def manual_room(view: View, end: int, summary: str) -> int:
    """Return the room of a folded text: less than it replaces, at least its summary."""
    target = view.target
    replaced = view.sums[end] - view.sums[view.conversation.instructions]
    wanted = min(wanted_room(view, end, target), replaced // 2)
    return max(wanted, view.count(summary) + FRAME_ROOM)


def without_fold(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint without its fold, which will be replaced."""
    return replace(checkpoint, folded_until=0, text="", summary="", summarised_until=0, sources=())
