"""Compaction by hand: fold all but the last turns, whatever the size, as the user says so."""

import asyncio
from dataclasses import dataclass, replace

from app.chat.conversation import Conversation
from app.compaction.checkpoint import Checkpoint
from app.compaction.summary.fold import fold
from app.compaction.summary.plan import Plan
from app.proxy.by_hand import budget_by_hand, note_by_hand
from app.proxy.case import Case, Outcome
from app.proxy.compact import trim
from app.proxy.folding import job_of, subject_of
from app.proxy.history import history_of
from app.proxy.room import Room
from app.proxy.scales import Scales
from app.proxy.services import Services
from app.proxy.standing import SUMMARY, Standing
from app.proxy.subject import Subject
from app.proxy.summaries import PREPARED, Job
from app.telemetry.record import ExchangeRecord

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
class Wish:
    """What the user wants: so many of the last turns left alone, and a summary written so."""

    keep: int = KEPT_TURNS
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class ByHand:
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


async def compact_by_hand(case: Case, services: Services, wish: Wish) -> ByHand:
    """Fold all but the last turns of a conversation, and leave that behind for later requests."""
    if not case.policy.summary.enabled:
        return unchanged(case, "none", SWITCHED_OFF)
    if len(case.conversation.turns) <= wish.keep:
        return unchanged(case, "none", NOTHING_TO_FOLD)
    return await Hand(await room_of(case, services), wish).compact()


async def room_of(case: Case, services: Services) -> Room:
    """Return what the compaction works with; turns that a stage drops are to be told of too."""
    scales = Scales(case.request, case.measured, services.tokenizers)
    conversation = (await trim(case, services)).conversation
    if len(conversation) < len(case.conversation):
        conversation = case.conversation
    outcome = Outcome(conversation, await scales.weigh(conversation))
    history = await history_of(case.conversation, len(case.request.body))
    return Room(case, budget_by_hand(case), scales, history, services, outcome)


def unchanged(case: Case, label: str, note: str) -> ByHand:
    """Return the conversation as it is."""
    tokens = case.measured.tokens
    return ByHand(case.conversation, label, tokens, tokens, note=note)


def note_hand(record: ExchangeRecord, done: ByHand, messages: int) -> None:
    """Write down what became of a conversation of so many messages."""
    record.compaction = done.label
    record.tokens_before, record.tokens_after = done.tokens_before, done.tokens_after
    record.messages_before, record.messages_after = messages, len(done.conversation)
    record.stages = (SUMMARY,) if done.checkpoint else ()
    record.is_break = done.label == "built"


class Hand:
    """One compaction by hand."""

    def __init__(self, room: Room, wish: Wish) -> None:
        self._room = room
        self._wish = wish

    async def compact(self) -> ByHand:
        """Write a summary of what no earlier one stands for, in as many rounds as it needs.

        An earlier one that reaches further, or lacks what is wished for now, is written anew.
        """
        room = self._room
        found = await room.find()
        bare = await room.stand(without_summary(found) if found else None)
        goal = await self._goal(bare)
        if not goal:
            return unchanged(room.case, "none", NOTHING_TO_FOLD)
        reached = found.folded_until if found else 0
        if reached == goal and not self._wish.instruction:
            return await self._told(found, "reused")
        start = await room.stand(found) if reached < goal else bare
        standing, reason = await self._written(start, found.until if found else 0)
        if standing.folded_until > start.folded_until:
            note = f"{STOPPED_EARLY} {told_reason(reason)}" if reason else ""
            return await self._told(standing.checkpoint, "built", note)
        if reason == "no_gain":
            return await self._told(found, "reused", TOO_LITTLE)
        return unchanged(room.case, "failed-open", told_reason(reason))

    async def _goal(self, bare: Standing) -> int:
        """Return how many messages are to be folded."""
        subject = self._subject(bare)
        plan = await asyncio.to_thread(lambda: subject.plan)
        return subject.boundary(plan) if plan else 0

    async def _written(self, standing: Standing, until: int) -> tuple[Standing, str]:
        """Return where the conversation stands in the end, and why no further if it failed."""
        room = self._room
        tokens = (await room.outcome(standing)).weight.tokens
        for _ in range(MOST_ROUNDS):
            subject = self._subject(standing)
            plan = await asyncio.to_thread(getattr, subject, "plan")
            if plan is None:
                return standing, ""
            summaries = room.services.summaries
            job = await self._job(subject, plan, tokens)
            checkpoint = await summaries.wait(summaries.begin(job))
            if checkpoint is None:
                return standing, summaries.reason_of(job)
            # In the place of an earlier one that reaches further: it would be found first.
            checkpoint = replace(checkpoint, until=max(checkpoint.until, until))
            outcome = await room.adopted(checkpoint, "built", tokens)
            if outcome is None:
                return standing, "no_gain"
            standing, tokens = await room.stand(checkpoint), outcome.weight.tokens
        return standing, "rounds"

    async def _job(self, subject: Subject, plan: Plan, tokens: int) -> Job:
        """Return the summary as a job, for which one that was prepared of less is no substitute."""
        job = job_of(self._room, subject, plan, tokens)
        prepared = await self._room.find(PREPARED)
        if prepared is not None and job.start < prepared.folded_until < subject.boundary(plan):
            job = replace(job, start=prepared.folded_until)
        return replace(job, wish=self._wish.instruction)

    def _subject(self, standing: Standing) -> Subject:
        subject = subject_of(self._room, standing, standing.clearing)
        return replace(subject, keep_turns=self._wish.keep, wish=self._wish.instruction)

    async def _told(self, checkpoint: Checkpoint | None, label: str, note: str = "") -> ByHand:
        """Return the client's own messages folded by a checkpoint, for others to find from now."""
        room, case = self._room, self._room.case
        if checkpoint is None or not checkpoint.folded_until:
            return unchanged(case, "none", note)
        await note_by_hand(case, room.services)
        folded = fold(case.conversation, checkpoint.folded_until, checkpoint.text)
        after = (await room.scales.weigh(folded)).tokens
        return ByHand(folded, label, case.measured.tokens, after, checkpoint, note)


def without_summary(checkpoint: Checkpoint) -> Checkpoint:
    """Return what is left of a checkpoint when its summary is to be written anew."""
    return replace(checkpoint, folded_until=0, text="", summary="")


def told_reason(reason: str) -> str:
    """Return why there is no summary, for people."""
    return WHY_IT_FAILED.get(reason, f"the summary model gave no usable summary ({reason}).")
