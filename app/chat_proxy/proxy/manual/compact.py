"""Manual compaction: fold all but the last turns of a conversation, whatever its size."""

import asyncio
from dataclasses import dataclass, replace

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.summary.fold import fold
from chat_proxy.compaction.summary.plan import Plan
from chat_proxy.proxy.compacting.open_session import open_session
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.compacting.trim import trim
from chat_proxy.proxy.session.manual_mark import mark_manual
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult, unchanged_result
from chat_proxy.proxy.session.session import SUMMARY, AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.summaries.draft import SummaryDraft
from chat_proxy.proxy.summaries.jobs import PREPARED, SummaryJob
from chat_proxy.proxy.summaries.obtain import draft_of, job_of
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.telemetry.record import RequestRecord

KEPT_TURNS = 1
MOST_ROUNDS = 16
NOTHING_TO_FOLD = "There is nothing to compact yet: the conversation has no older turns."
TOO_LITTLE = "There is little to compact yet: a summary would be no shorter than the messages."
SWITCHED_OFF = "Summaries are switched off on this proxy, so nothing was compacted."
STOPPED_EARLY = "The newer messages could not be compacted:"
FAILURE_TEXTS = {
    "timeout": "the summary model did not answer in time.",
    "window": "the messages do not fit into the summary model's window.",
    "refused": "the summary model refused the request.",
    "unavailable": "the summary model cannot be reached or answers with errors.",
    "rounds": "they are too many to be compacted at once; ask again to go on.",
    "no_gain": "a summary would be no shorter.",
    "upstream_unavailable": "the summary model failed repeatedly and is not asked for a while.",
    "tenant_budget": "this key has used up its tokens for summaries; try again later.",
}


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
    return await ManualCompaction(session, options, services.summaries).compact()


def unchanged(compaction: CompactionRequest, label: str, note: str) -> ManualResult:
    """Return the conversation unchanged."""
    tokens = compaction.measured.tokens
    return ManualResult(compaction.conversation, label, tokens, tokens, note=note)


def record_manual(record: RequestRecord, done: ManualResult, messages: int) -> None:
    """Record the result of compacting a conversation of `messages` messages."""
    record.compaction = done.label
    record.tokens_before, record.tokens_after = done.tokens_before, done.tokens_after
    record.messages_before, record.messages_after = messages, len(done.conversation)
    record.stages = (SUMMARY,) if done.checkpoint else ()
    record.is_break = done.label == "built"


class ManualCompaction:
    """One manual compaction."""

    def __init__(
        self, session: CompactionSession, options: ManualOptions, services: SummaryServices
    ) -> None:
        self._session = session
        self._options = options
        self._services = services

    async def compact(self) -> ManualResult:
        """Summarise the messages that no earlier summary covers, in as many rounds as needed.

        An earlier summary that covers more, or was written without this instruction, is replaced.
        """
        session = self._session
        found = await session.find()
        bare = await session.apply_checkpoint(without_summary(found) if found else None)
        goal = await self._goal(bare)
        if not goal:
            return unchanged(session.compaction, "none", NOTHING_TO_FOLD)
        reached = found.folded_until if found else 0
        if reached == goal and not self._options.instruction:
            return await self._result(found, "reused")
        start = await session.apply_checkpoint(found) if reached < goal else bare
        applied, reason = await self._written(start, found.until if found else 0)
        if applied.folded_until > start.folded_until:
            note = f"{STOPPED_EARLY} {reason_text(reason)}" if reason else ""
            return await self._result(applied.checkpoint, "built", note)
        if reason == "no_gain":
            return await self._result(found, "reused", TOO_LITTLE)
        return unchanged(session.compaction, "failed-open", reason_text(reason))

    async def _goal(self, bare: AppliedCheckpoint) -> int:
        """Return how many of the client's messages to fold."""
        draft = self._draft(bare)
        plan = await asyncio.to_thread(draft.find_plan)
        return draft.boundary(plan) if plan else 0

    async def _written(
        self, applied: AppliedCheckpoint, until: int
    ) -> tuple[AppliedCheckpoint, str]:
        """Return the conversation as far as it was folded, and the reason if a round failed."""
        session = self._session
        tokens = (await session.outcome(applied)).token_count.tokens
        for _ in range(MOST_ROUNDS):
            draft = self._draft(applied)
            plan = await asyncio.to_thread(draft.find_plan)
            if plan is None:
                return applied, ""
            jobs = self._services.jobs
            job = await self._job(draft, plan, tokens)
            checkpoint = await jobs.wait(jobs.begin(job))
            if checkpoint is None:
                return applied, jobs.reason_of(job)
            # Replace an earlier checkpoint that covers more: it would be found first.
            checkpoint = replace(checkpoint, until=max(checkpoint.until, until))
            outcome = await session.adopted(checkpoint, "built", tokens)
            if outcome is None:
                return applied, "no_gain"
            applied, tokens = await session.apply_checkpoint(checkpoint), outcome.token_count.tokens
        return applied, "rounds"

    async def _job(self, draft: SummaryDraft, plan: Plan, tokens: int) -> SummaryJob:
        """Return the job of a summary; it does not accept a prepared summary that covers less."""
        job = job_of(self._session, draft, plan, tokens, self._services)
        prepared = await self._session.find(PREPARED)
        if prepared is not None and job.start < prepared.folded_until < draft.boundary(plan):
            job = replace(job, start=prepared.folded_until)
        return replace(job, wish=self._options.instruction)

    def _draft(self, applied: AppliedCheckpoint) -> SummaryDraft:
        draft = draft_of(self._session, applied, applied.clearing)
        return replace(draft, keep_turns=self._options.keep, wish=self._options.instruction)

    async def _result(
        self, checkpoint: Checkpoint | None, label: str, note: str = ""
    ) -> ManualResult:
        """Return the client's own messages folded by a checkpoint; mark it for later requests."""
        session, compaction = self._session, self._session.compaction
        if checkpoint is None or not checkpoint.folded_until:
            return unchanged(compaction, "none", note)
        await mark_manual(compaction, session.checkpoints)
        folded = fold(compaction.conversation, checkpoint.folded_until, checkpoint.text)
        after = (await session.request_counter.count_conversation(folded)).tokens
        return ManualResult(folded, label, compaction.measured.tokens, after, checkpoint, note)


def without_summary(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint without its summary, which will be replaced."""
    return replace(checkpoint, folded_until=0, text="", summary="")


def reason_text(reason: str) -> str:
    """Return the reason for a missing summary as a sentence."""
    return FAILURE_TEXTS.get(reason, f"the summary model gave no usable summary ({reason}).")
