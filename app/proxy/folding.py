"""A summary in the place of older messages: prepared behind the scenes, or waited for."""

import asyncio
from dataclasses import replace
from functools import cached_property, partial

from app.compaction.checkpoint import Checkpoint
from app.compaction.clearing import Clearing
from app.compaction.pipeline import Step
from app.compaction.summary.digest import digest
from app.compaction.summary.fold import fold
from app.compaction.summary.plan import Plan
from app.proxy.case import Outcome
from app.proxy.room import Room
from app.proxy.standing import SUMMARY, Standing
from app.proxy.subject import Subject
from app.proxy.summaries import PREPARED, Flight, Job
from app.proxy.summarise import checkpoint_of, framed, kept_originals, summarise

MOST_ROUNDS = 4
LEAST_BETTER = 1 / 6
"""The share of the trigger by which a summary must be better than one that is prepared."""
WOULD_STAND_HERE = "(A summary would stand here.)"


class Folding:
    """Gets a summary for one request."""

    def __init__(
        self, room: Room, standing: Standing, clearing: Clearing, *, is_ahead: bool = True
    ) -> None:
        self._room = room
        self._standing = standing
        self._clearing = clearing
        self._is_ahead = is_ahead
        self._refused = 0
        """How many messages a prepared summary stands for that would win too little by now."""
        self.has_failed = False
        """Whether a summary was wanted and could not be had."""
        self.may_wait = False
        """Whether the request goes on without one for now."""

    def prepare(self, tokens: int) -> None:
        """Have a summary written while the request goes on, so that it is there at the trigger."""
        room = self._room
        summaries = room.services.summaries
        key = (room.case.scope, room.history.links[self._turn_start()])
        if not room.case.is_dry and self._under_way() is None:
            summaries.look_ahead(key, tokens, partial(self._prepare, tokens))

    async def _prepare(self, tokens: int) -> bool:
        """Begin to write a summary if one is needed at the trigger; return whether it is."""
        room = self._room
        prepared = await room.find(PREPARED)
        known = prepared.folded_until if prepared and self._is_newer(prepared) else 0
        if known > self._turn_start():
            return True
        relieved = await asyncio.to_thread(
            room.case.policy.pipeline.relieve,
            self._standing.visible,
            self._clearing,
            partial(room.scales.pressure_on, budget=room.budget),
        )
        weight = await room.scales.weigh(relieved.conversation)
        if weight.tokens <= room.budget.target:
            return False
        folding = Folding(room, self._standing, relieved.clearing)
        if known and not await folding.is_much_better(known):
            return True
        return await folding.begin(tokens) is not None

    async def is_much_better(self, known: int) -> bool:
        """Tell whether a summary reaches much further by now than one that is prepared."""
        plan = await self._plan()
        self._refused = known
        least = self._room.budget.trigger * LEAST_BETTER
        return plan is not None and self._subject.tokens_behind(known, plan) >= least

    async def fold(self, outcome: Outcome) -> Outcome | None:
        """Return the request with a summary, or as it is while that may wait, or None without.

        A request far over its window needs several summaries, each of as much as the model takes;
        so does any whose summary model takes little at a time, or the next ones would follow soon.
        """
        room = self._room
        if room.case.is_dry:
            return await self._would_fold(outcome)
        prepared = await room.find(PREPARED)
        best = outcome
        folding = self
        if prepared is not None and self._is_newer(prepared):
            least = room.budget.least_growth if self._has_time(best.weight.tokens) else 0
            best, folding = await self.adopted(prepared, "reused", best, least)
            self._refused = prepared.folded_until if best is outcome else 0
        enough = room.budget.trigger
        for _ in range(MOST_ROUNDS):
            if best.weight.tokens < enough:
                break
            checkpoint = await folding.written(best)
            if checkpoint is None:
                break
            is_all = await folding.has_all(checkpoint)
            enough = room.budget.trigger if is_all else room.budget.target
            smaller, folding = await folding.adopted(checkpoint, "built", best)
            if smaller is best:
                break
            best = smaller
        self.has_failed = folding.has_failed
        if best.weight.tokens > room.budget.limit:
            best = await folding.by_force(best)
        return None if best is outcome and not folding.may_wait else best

    async def written(self, outcome: Outcome) -> Checkpoint | None:
        """Wait for a summary that reaches further than the last, unless the request can go on."""
        room = self._room
        tokens = outcome.weight.tokens
        flight = self._under_way() or await self.begin(tokens)
        self.may_wait = await self._is_put_off(tokens) or (
            flight is not None
            and tokens <= room.budget.limit
            and not room.case.policy.summary.waits_at_trigger
        )
        if flight is None or self.may_wait:
            return None
        checkpoint = await room.services.summaries.wait(flight)
        if checkpoint is None or not self._is_newer(checkpoint):
            self.has_failed = True
            return None
        return checkpoint

    async def adopted(
        self, checkpoint: Checkpoint, label: str, best: Outcome, least: int = 0
    ) -> tuple[Outcome, "Folding"]:
        """Return the request by a new checkpoint if that wins enough, and how to go on."""
        merged = replace(checkpoint, clearing=checkpoint.clearing | self._standing.clearing)
        until = max(merged.until, merged.clearing.until)
        merged = replace(merged, until=self._room.history.seam_from(until))
        outcome = await self._room.adopted(merged, label, best.weight.tokens - least)
        if outcome is None:
            return best, self
        standing = await self._room.stand(merged)
        return outcome, Folding(self._room, standing, merged.clearing, is_ahead=False)

    async def has_all(self, checkpoint: Checkpoint) -> bool:
        """Tell whether a summary stands for all that was planned, or only for its beginning."""
        plan = await self._plan()
        return plan is None or checkpoint.folded_until >= self._subject.boundary(plan)

    def _is_newer(self, checkpoint: Checkpoint | None) -> bool:
        return checkpoint is not None and checkpoint.folded_until > self._standing.folded_until

    def _under_way(self) -> Flight | None:
        room = self._room
        links = frozenset(room.history.links)
        return room.services.summaries.under_way(room.case.scope, links)

    async def begin(self, tokens: int) -> Flight | None:
        """Begin to write a summary, unless there is nothing to win or it failed just now.

        Ahead of the trigger one that wins little is not worth it yet: the turn may soon be over.
        """
        room, summaries = self._room, self._room.services.summaries
        if not summaries.may_try(room.case.scope, room.history.beginning, tokens):
            self.has_failed = True
            return None
        plan = await self._plan()
        if plan is None or (tokens < room.budget.late and self._wins_little(plan)):
            return None
        job = job_of(room, self._subject, plan, tokens)
        if self._refused and not self._wins_little(plan):
            job = replace(job, start=self._refused)
        return summaries.begin(job)

    async def _is_put_off(self, tokens: int) -> bool:
        """Tell whether a later summary is better than this one, and the request can do without."""
        plan = await self._plan()
        wins_little = plan is not None and self._wins_little(plan)
        return self._has_time(tokens) and (wins_little or self._refused > 0)

    def _has_time(self, tokens: int) -> bool:
        """Tell whether a prompt can wait for a better summary."""
        return tokens <= self._room.budget.patience

    def _wins_little(self, plan: Plan) -> bool:
        """Tell whether another summary would follow soon, so that a later one is better."""
        return self._subject.won(plan) < self._room.budget.least_growth

    def _turn_start(self) -> int:
        turn = self._room.case.conversation.current_turn
        return turn.start if turn else 0

    @cached_property
    def _subject(self) -> Subject:
        subject = subject_of(self._room, self._standing, self._clearing)
        return subject if self._is_ahead else replace(subject, is_ahead=False)

    async def _plan(self) -> Plan | None:
        return await asyncio.to_thread(getattr, self._subject, "plan")

    async def by_force(self, best: Outcome) -> Outcome:
        """Fold without a model, the last thing before an overflow."""
        subject, plan = self._subject, await self._plan()
        if plan is None:
            return best
        source = await kept_originals(subject, plan, self._room.services)
        checkpoint = await asyncio.to_thread(digested, subject, plan, source)
        return (await self.adopted(checkpoint, "failed-open", best))[0]

    async def _would_fold(self, outcome: Outcome) -> Outcome | None:
        """Return what the request would be with a summary, which nobody is asked for now."""
        subject, plan = self._subject, await self._plan()
        if plan is None:
            return None
        if await self._is_put_off(outcome.weight.tokens):
            return outcome
        text = await asyncio.to_thread(framed, subject, plan, WOULD_STAND_HERE)
        folded = fold(subject.cleared, plan.end, text)
        weight = await self._room.scales.weigh(folded)
        summary = subject.case.policy.summary.summary_tokens(subject.budget)
        return outcome._replace(
            conversation=folded,
            weight=weight._replace(tokens=weight.tokens + summary),
            steps=(*self._room.trimmed.steps, Step(SUMMARY, folded)),
            label="built",
            is_break=True,
        )


def subject_of(room: Room, standing: Standing, clearing: Clearing) -> Subject:
    """Return what a summary of a conversation that stands so is written of."""
    steps = room.case.policy.pipeline.repeat(standing.unfolded, clearing)
    cleared = steps[-1].conversation if steps else standing.unfolded
    return Subject(
        room.case,
        room.budget,
        room.scales,
        room.history,
        standing,
        clearing,
        cleared,
        room.sign,
    )


def job_of(room: Room, subject: Subject, plan: Plan, tokens: int) -> Job:
    """Return the summary of a planned span as a job, needed at so many tokens."""
    history = room.history
    boundary = history.seam_from(max(subject.boundary(plan), subject.clearing.until))
    return Job(
        room.case.scope,
        history.beginning,
        history.link_at(boundary),
        subject.standing.folded_until,
        tokens,
        room.case.policy.summary.timeout_seconds,
        history,
        partial(summarise, subject, plan, room.services),
    )


def digested(subject: Subject, plan: Plan, source: str) -> Checkpoint:
    """Return a checkpoint with a summary that no model wrote."""
    messages = subject.standing.unfolded.messages[plan.start : plan.end]
    room = subject.case.policy.summary.summary_tokens(subject.budget)
    summary = digest(messages, room, subject.scales.count, subject.previous)
    return checkpoint_of(subject, plan, summary, source)
