"""Carry out a plan: store what leaves the prompt, write the folded text, keep the checkpoint."""

import asyncio
from dataclasses import dataclass, replace
from typing import NamedTuple

from chat_proxy.chat.conversation import Conversation, carried
from chat_proxy.chat.media import UNKNOWN_MIME
from chat_proxy.chat.message import Message
from chat_proxy.chat.tool_names import call_of_results
from chat_proxy.compaction.ageing.apply import age
from chat_proxy.compaction.ageing.treatments import Place, Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.drop_media import without_current_media
from chat_proxy.compaction.media_notes import media_note
from chat_proxy.compaction.pipeline import Step
from chat_proxy.compaction.planner.plan import Plan
from chat_proxy.compaction.planner.view import View
from chat_proxy.compaction.summary.commands import without_commands
from chat_proxy.compaction.summary.fold_text import (
    FoldContent,
    fold_text,
    images_in,
    noted_in,
    spoken_in,
)
from chat_proxy.compaction.summary.marker import add_marker
from chat_proxy.compaction.summary.notes.units import NumberedMessage
from chat_proxy.compaction.summary.words import user_text
from chat_proxy.proxy.session.originals import Originals, SpanOfMessages
from chat_proxy.proxy.session.request import CompactionResult
from chat_proxy.proxy.session.session import AGE_MEDIA, AppliedCheckpoint, CompactionSession
from chat_proxy.proxy.summaries.draft import returned_fold

MAX_SOURCES = 12
MARKER_TOKENS = 48
"""About the tokens of the marker and of the frame of the folded message."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """A plan for a session, and the summary that its folded text contains."""

    session: CompactionSession
    applied: AppliedCheckpoint
    view: View
    plan: Plan
    summary: str
    summarised_until: int

    @property
    def boundary(self) -> int:
        """How many of the client's messages the plan folds."""
        origins = self.view.conversation.origins
        origin = origins[self.plan.end] if self.plan.end < len(origins) else None
        return len(self.session.compaction.conversation) if origin is None else origin


class FoldedText(NamedTuple):
    """A folded text without its marker, its tokens, and the places of all folded messages."""

    text: str
    tokens: int
    sources: tuple[str, ...]


async def write_fold(adoption: Adoption, originals: Originals) -> FoldedText | None:
    """Store the messages that a plan folds and write the text that stands for them."""
    plan, before = adoption.plan, adoption.applied.checkpoint
    if plan.room is None:
        return None
    sources = before.sources if before else ()
    folded_until = before.folded_until if before else 0
    if adoption.boundary > folded_until and (source := await _keep_span(adoption, originals)):
        sources = await _with_few_places((*sources, source), adoption, originals)
        await originals.keep_history(adoption.session.compaction.tenant, sources)
    content = await asyncio.to_thread(
        fold_content,
        adoption.session,
        adoption.applied,
        plan.end,
        adoption.summary,
        sources,
    )
    content = replace(content, told=await _told_about_folded(adoption, content))
    count = adoption.view.count
    text = await asyncio.to_thread(fold_text, content, plan.room, count)
    return FoldedText(text, count(text) + MARKER_TOKENS, sources)


async def _told_about_folded(adoption: Adoption, content: FoldContent) -> dict[int, str]:
    """Return what a model wrote about the images of folded messages, by their number."""
    session = adoption.session
    origins = [number for number, message in content.messages if message.is_user]
    found = await session.images.notes.about(session.compaction, origins)
    told: dict[int, str] = {}
    for place, text in sorted(found.items()):
        told[place.origin] = f"{told[place.origin]} {text}" if place.origin in told else text
    return told


async def adopt(
    adoption: Adoption, folded: FoldedText | None, originals: Originals, label: str
) -> CompactionResult:
    """Return the request as planned, and keep the decision for later requests."""
    session, plan = adoption.session, adoption.plan
    checkpoint = await planned_checkpoint(adoption, folded, originals)
    outcome = await session.outcome(await session.apply(checkpoint))
    await session.keep(replace(checkpoint, tokens=outcome.token_count.tokens))
    outcome = outcome._replace(label=label, is_break=True)
    if plan.current_media is None:
        return outcome
    return await _without_current_media(session, outcome, plan.current_media)


async def planned_checkpoint(
    adoption: Adoption, folded: FoldedText | None, originals: Originals
) -> Checkpoint:
    """Return the checkpoint of a plan; the whole texts of what it ages are stored."""
    session, plan, applied = adoption.session, adoption.plan, adoption.applied
    is_kept = await keep_results(session, applied.trimmed, plan.treatments, originals)
    # What the model can ask for is in the client's own request, whatever the store says.
    names_places = is_kept or session.compaction.offers_recall
    told = await _told_about_new(adoption)
    before = applied.checkpoint or Checkpoint(0, Treatments(), 0)
    boundary = adoption.boundary if folded else before.folded_until
    treatments = plan.treatments.from_origin(boundary) | _scaled_in_front(adoption)
    treatments |= Treatments(told=told)
    until = session.history.seam_from(max(boundary, treatments.until))
    checkpoint = replace(before, until=until, treatments=treatments, names_places=names_places)
    if folded is None:
        return checkpoint
    return replace(
        checkpoint,
        folded_until=boundary,
        text=add_marker(folded.text, boundary, session.sign),
        summary=adoption.summary,
        summarised_until=adoption.summarised_until,
        sources=folded.sources,
    )


async def _told_about_new(adoption: Adoption) -> dict[Place, str]:
    """Return what a model wrote about the media that are noted now; earlier notes stay."""
    session, known = adoption.session, adoption.applied.treatments.media
    new = adoption.plan.treatments.media - known
    if not new:
        return {}
    found = await session.images.notes.about(session.compaction, {it.origin for it in new})
    return {place: text for place, text in found.items() if place in new}


def _scaled_in_front(adoption: Adoption) -> Treatments:
    """Return the scaled images of the request that stays in front of the fold's tail."""
    conversation, plan = adoption.view.conversation, adoption.plan
    origins = {conversation.origins[index] for index in carried(conversation, plan.end)}
    scaled = plan.treatments.scaled.items()
    return Treatments(scaled={place: side for place, side in scaled if place.origin in origins})


def fold_content(
    session: CompactionSession,
    applied: AppliedCheckpoint,
    end: int,
    summary: str,
    sources: tuple[str, ...],
) -> FoldContent:
    """Return what a folded text up to `end` is made of: the client's own messages."""
    client = session.compaction.conversation
    recalls = session.compaction.offers_recall
    unfolded = applied.unfolded
    kept = frozenset(carried(unfolded, end))
    returned = returned_fold(unfolded, session.sign)
    first = returned.behind if returned else unfolded.instructions
    earlier = returned.text if returned else _text_of_missing(applied)
    origins = [unfolded.origins[index] for index in range(first, end) if index not in kept]
    said = frozenset(without_commands(client.fields, 0))
    calls = call_of_results(client)
    # Ids stay when the client drops its oldest messages; without recall nobody asks for them.
    dropped = applied.checkpoint.missing if recalls and applied.checkpoint else 0
    messages = [
        (origin + dropped, client.messages[origin])
        for origin in origins
        if origin is not None and origin in said
    ]
    still_there = {user_text(message) for _, message in messages if message.is_user}
    return FoldContent(
        messages,
        {index + dropped: call for index, call in calls.items()} if dropped else calls,
        summary or (returned.text if returned and not applied.folded_until else ""),
        [text for text in spoken_in(earlier) if text not in still_there],
        _noted_in(earlier, unfolded.instructions),
        sources if not recalls or session.originals.file_of else (),
        splits_turn=bool(kept),
        recalls=recalls,
    )


def _text_of_missing(applied: AppliedCheckpoint) -> str:
    """Return the fold of messages that the client has dropped since: only there they are left."""
    checkpoint = applied.checkpoint
    return checkpoint.text if checkpoint is not None and checkpoint.missing else ""


def _noted_in(text: str, number: int) -> list[NumberedMessage]:
    """Return what the notes of an earlier fold say of the user, as messages of the user.

    What they tell about media comes back as the notes of cleared media.
    """
    said = noted_in(text) + [media_note(UNKNOWN_MIME, told) for told in images_in(text)]
    return [(number, Message({"role": "user", "content": text})) for text in said]


async def keep_results(
    session: CompactionSession,
    trimmed: Conversation,
    treatments: Treatments,
    originals: Originals,
) -> bool:
    """Store the whole texts of aged results; return whether notes may name their places."""
    if session.compaction.is_dry_run or not (treatments.lines or treatments.short):
        return True
    texts: dict[str, str] = {}
    tenant = session.compaction.tenant

    def remember(text: str, _: int) -> str:
        texts[originals.id_of(tenant, text)] = text
        return ""

    await asyncio.to_thread(age, trimmed, treatments, remember)
    return not await originals.keep_results(tenant, texts)


async def _keep_span(adoption: Adoption, originals: Originals) -> str:
    """Store the client's own messages that are folded now; return the name of the place."""
    session, applied = adoption.session, adoption.applied
    if session.compaction.is_dry_run:
        return ""
    start, end = applied.folded_until, adoption.boundary
    history = session.history
    return await originals.keep_span(
        SpanOfMessages(
            session.compaction.tenant,
            history.link_at(end).hex(),
            session.compaction.conversation.fields[start:end],
            start,
            history.link_at(start).hex() if start else None,
        )
    )


async def _with_few_places(
    sources: tuple[str, ...], adoption: Adoption, originals: Originals
) -> tuple[str, ...]:
    """Return the places, the oldest of too many replaced by one text that lists them."""
    if len(sources) <= MAX_SOURCES:
        return sources
    older = sources[: MAX_SOURCES // 2]
    text = "The original messages, oldest first:\n" + "\n".join(older)
    place = await originals.keep_text(adoption.session.compaction.tenant, text)
    first = (f"{place} (a list of {len(older)} earlier places)",) if place else ()
    return (*first, *sources[len(older) :])


async def _without_current_media(
    session: CompactionSession, outcome: CompactionResult, keep: int
) -> CompactionResult:
    """Return the request without those media of its current turn that do not fit the window."""
    conversation: Conversation = without_current_media(outcome.conversation, keep)
    return outcome._replace(
        conversation=conversation,
        token_count=await session.request_counter.count_conversation(conversation),
        steps=(*outcome.steps, Step(AGE_MEDIA, conversation)),
    )
