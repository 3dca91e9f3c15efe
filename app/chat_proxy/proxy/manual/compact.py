"""Compaction by hand: fold all but the last turns, whatever the size, as the user says so."""

import asyncio
from dataclasses import dataclass, replace

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.summary.fold import fold
from chat_proxy.compaction.summary.plan import Plan
from chat_proxy.proxy.compacting.compact import trim
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.history_hashes import history_hashes
from chat_proxy.proxy.session.manual_mark import budget_or_assumed, mark_manual
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import SUMMARY, AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.sizing.request_counter import RequestCounter
from chat_proxy.proxy.summaries.draft import SummaryDraft
from chat_proxy.proxy.summaries.jobs import PREPARED, SummaryJob
from chat_proxy.proxy.summaries.obtain import draft_of, job_of
from chat_proxy.telemetry.record import RequestRecord

KEPT_TURNS = 1
MOST_ROUNDS = 16
NOTHING_TO_FOLD = "There is nothing to compact yet: the conversation has no older turns."
TOO_LITTLE = "There is little to compact yet: a summary would be no shorter than what was said."
SWITCHED_OFF = "Summaries are switched off on this proxy, so nothing was compacted."
STOPPED_EARLY = "The newer messages could not be compacted:"
WHY_IT_FAILED = {
    "timeout": "the summary model did not answer in time.",
    "window": "the messages do not fit into the summary model's window.",
    "refused": "the summary model refused the request.",
    "unavailable": "the summary model cannot be reached or answers with errors.",
    "rounds": "they are too many to be compacted at once; ask again to go on.",
    "no_gain": "a summary would be no shorter.",
    "upstream_unavailable": "the summary model failed repeatedly and is left alone for a while.",
    "tenant_budget": "this key has used up its tokens for summaries; try again later.",
}


@dataclass(frozen=True, slots=True)
class ManualOptions:
    """What the user wants: so many of the last turns left alone, and a summary written so."""

    keep: int = KEPT_TURNS
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class ManualResult:
    """What became of a conversation that was to be compacted by hand."""

    conversation: Conversation
    """The client's own messages, the older ones folded."""
    label: str
    tokens_before: int
    tokens_after: int
    checkpoint: Checkpoint | None = None
    note: str = ""
    """What the user should know beside the figures."""

    @property
    def has_failed(self) -> bool:
        """Whether a summary was wanted and could not be had."""
        return self.label == "failed-open"

    @property
    def covered(self) -> int:
        """How many messages of the client's list the summary reaches over, instructions too."""
        return self.checkpoint.folded_until if self.checkpoint else 0

    @property
    def messages_compacted(self) -> int:
        """How many messages the summary stands for."""
        return self.covered - self.conversation.instructions if self.checkpoint else 0

    @property
    def summary(self) -> str:
        """The summary alone."""
        return self.checkpoint.summary if self.checkpoint else ""


async def compact_manually(
    compaction: CompactionRequest, services: Services, wish: ManualOptions
) -> ManualResult:
    """Fold all but the last turns of a conversation, and leave that behind for later requests."""
    if not compaction.policy.summary.enabled:
        return unchanged(compaction, "none", SWITCHED_OFF)
    if len(compaction.conversation.turns) <= wish.keep:
        return unchanged(compaction, "none", NOTHING_TO_FOLD)
    return await ManualCompaction(await session_of(compaction, services), wish).compact()


async def session_of(compaction: CompactionRequest, services: Services) -> CompactionSession:
    """Return what the compaction works with; turns that a stage drops are to be told of too."""
    request_counter = RequestCounter(compaction.request, compaction.measured, services.tokenizers)
    conversation = (await trim(compaction, services)).conversation
    if len(conversation) < len(compaction.conversation):
        conversation = compaction.conversation
    outcome = CompactionResult(conversation, await request_counter.count_conversation(conversation))
    history = await history_hashes(compaction.conversation, len(compaction.request.body))
    return CompactionSession(
        compaction, budget_or_assumed(compaction), request_counter, history, services, outcome
    )


def unchanged(compaction: CompactionRequest, label: str, note: str) -> ManualResult:
    """Return the conversation as it is."""
    tokens = compaction.measured.tokens
    return ManualResult(compaction.conversation, label, tokens, tokens, note=note)


def record_manual(record: RequestRecord, done: ManualResult, messages: int) -> None:
    """Write down what became of a conversation of so many messages."""
    record.compaction = done.label
    record.tokens_before, record.tokens_after = done.tokens_before, done.tokens_after
    record.messages_before, record.messages_after = messages, len(done.conversation)
    record.stages = (SUMMARY,) if done.checkpoint else ()
    record.is_break = done.label == "built"


class ManualCompaction:
    """One compaction by hand."""

    def __init__(self, session: CompactionSession, wish: ManualOptions) -> None:
        self._session = session
        self._wish = wish

    async def compact(self) -> ManualResult:
        """Write a summary of what no earlier one stands for, in as many rounds as it needs.

        An earlier one that reaches further, or lacks what is wished for now, is written anew.
        """
        session = self._session
        found = await session.find()
        bare = await session.apply_checkpoint(without_summary(found) if found else None)
        goal = await self._goal(bare)
        if not goal:
            return unchanged(session.compaction, "none", NOTHING_TO_FOLD)
        reached = found.folded_until if found else 0
        if reached == goal and not self._wish.instruction:
            return await self._told(found, "reused")
        start = await session.apply_checkpoint(found) if reached < goal else bare
        applied, reason = await self._written(start, found.until if found else 0)
        if applied.folded_until > start.folded_until:
            note = f"{STOPPED_EARLY} {told_reason(reason)}" if reason else ""
            return await self._told(applied.checkpoint, "built", note)
        if reason == "no_gain":
            return await self._told(found, "reused", TOO_LITTLE)
        return unchanged(session.compaction, "failed-open", told_reason(reason))

    async def _goal(self, bare: AppliedCheckpoint) -> int:
        """Return how many messages are to be folded."""
        draft = self._draft(bare)
        plan = await asyncio.to_thread(lambda: draft.plan)
        return draft.boundary(plan) if plan else 0

    async def _written(
        self, applied: AppliedCheckpoint, until: int
    ) -> tuple[AppliedCheckpoint, str]:
        """Return where the conversation stands in the end, and why no further if it failed."""
        session = self._session
        tokens = (await session.outcome(applied)).token_count.tokens
        for _ in range(MOST_ROUNDS):
            draft = self._draft(applied)
            plan = await asyncio.to_thread(getattr, draft, "plan")
            if plan is None:
                return applied, ""
            summaries = session.services.summaries
            job = await self._job(draft, plan, tokens)
            checkpoint = await summaries.wait(summaries.begin(job))
            if checkpoint is None:
                return applied, summaries.reason_of(job)
            # In the place of an earlier one that reaches further: it would be found first.
            checkpoint = replace(checkpoint, until=max(checkpoint.until, until))
            outcome = await session.adopted(checkpoint, "built", tokens)
            if outcome is None:
                return applied, "no_gain"
            applied, tokens = await session.apply_checkpoint(checkpoint), outcome.token_count.tokens
        return applied, "rounds"

    async def _job(self, draft: SummaryDraft, plan: Plan, tokens: int) -> SummaryJob:
        """Return the summary as a job, for which one that was prepared of less is no substitute."""
        job = job_of(self._session, draft, plan, tokens)
        prepared = await self._session.find(PREPARED)
        if prepared is not None and job.start < prepared.folded_until < draft.boundary(plan):
            job = replace(job, start=prepared.folded_until)
        return replace(job, wish=self._wish.instruction)

    def _draft(self, applied: AppliedCheckpoint) -> SummaryDraft:
        draft = draft_of(self._session, applied, applied.clearing)
        return replace(draft, keep_turns=self._wish.keep, wish=self._wish.instruction)

    async def _told(
        self, checkpoint: Checkpoint | None, label: str, note: str = ""
    ) -> ManualResult:
        """Return the client's own messages folded by a checkpoint, for others to find from now."""
        session, compaction = self._session, self._session.compaction
        if checkpoint is None or not checkpoint.folded_until:
            return unchanged(compaction, "none", note)
        await mark_manual(compaction, session.services)
        folded = fold(compaction.conversation, checkpoint.folded_until, checkpoint.text)
        after = (await session.request_counter.count_conversation(folded)).tokens
        return ManualResult(folded, label, compaction.measured.tokens, after, checkpoint, note)


def without_summary(checkpoint: Checkpoint) -> Checkpoint:
    """Return what is left of a checkpoint when its summary is to be written anew."""
    return replace(checkpoint, folded_until=0, text="", summary="")


def told_reason(reason: str) -> str:
    """Return why there is no summary, for people."""
    return WHY_IT_FAILED.get(reason, f"the summary model gave no usable summary ({reason}).")
