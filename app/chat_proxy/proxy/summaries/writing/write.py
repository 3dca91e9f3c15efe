"""Write one summary: ask the models in order, in parts if the span is too long for one query."""

import asyncio
from collections.abc import Sequence
from itertools import starmap
from typing import get_args

from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.summary.summary_sections import merged_summaries, merged_within
from chat_proxy.compaction.summary.validation.validate import Reason
from chat_proxy.proxy.summaries.draft import Span, SummaryDraft
from chat_proxy.proxy.summaries.failure import SummaryFailed
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.proxy.summaries.writing.models import SummaryModel, models_for
from chat_proxy.proxy.summaries.writing.parts import parts_of
from chat_proxy.proxy.summaries.writing.query import SummaryQuery
from chat_proxy.proxy.summaries.writing.request import requires_tool_call

WORTH_ANOTHER_SHAPE = ("refused", "window", "tool_calls")
UNUSABLE_ANSWERS = frozenset(get_args(Reason))
"""The failures that say something about the model, unlike those of its server or its budget."""


async def write_summary(draft: SummaryDraft, span: Span, services: SummaryServices) -> Checkpoint:
    """Return a checkpoint with a new summary and no text yet, or raise SummaryFailed."""
    failure = SummaryFailed("window")
    session = draft.session
    timeout = session.compaction.policy.summary.timeout_seconds
    *others, own = await models_for(session.compaction, session.budget, services)
    for summary_model in (*others, own):
        # A configured model must leave the request's own model some of the time.
        seconds = None if summary_model is own else timeout * 2 / 3
        try:
            async with asyncio.timeout(seconds):
                summary, done = await _asked(draft, span, summary_model, services)
        except TimeoutError:
            failure = SummaryFailed("timeout")
        except SummaryFailed as error:
            failure = error
        else:
            boundary = draft.boundary(done)
            return Checkpoint(
                session.history.seam_from(boundary),
                Treatments(),
                tokens=0,
                folded_until=boundary,
                summary=summary,
                summarised_until=boundary,
            )
    raise failure


async def _asked(
    draft: SummaryDraft, span: Span, summary_model: SummaryModel, services: SummaryServices
) -> tuple[str, Span]:
    """Return one model's summary and the span that it covers, or raise SummaryFailed."""
    tenant, ability = draft.session.compaction.tenant, services.ability
    style = ability.style_of(tenant, summary_model.name)
    if style == "none":
        raise SummaryFailed("unable")
    try:
        if style == "short":
            query = SummaryQuery(draft, summary_model, "transcript", services, style)
            written = await query.ask(span)
        else:
            written = await _asked_in_full(draft, span, summary_model, services)
    except SummaryFailed as error:
        if error.reason in UNUSABLE_ANSWERS:
            ability.refused(tenant, summary_model.name)
        raise
    except asyncio.CancelledError:
        ability.timed_out(tenant, summary_model.name)
        raise
    ability.succeeded(tenant, summary_model.name)
    return written


async def _asked_in_full(
    draft: SummaryDraft, span: Span, summary_model: SummaryModel, services: SummaryServices
) -> tuple[str, Span]:
    """Ask first in the shapes that can show the whole span; divide a span that fits none."""
    queries = [
        SummaryQuery(draft, summary_model, shape, services)
        for shape in summary_model.shapes
        if shape != "ride" or _is_worth_a_ride(draft, summary_model, services)
    ]
    fitting = [query for query in queries if await asyncio.to_thread(query.fits, span)]
    if not fitting:
        parts = await asyncio.to_thread(parts_of, draft, span, summary_model.window)
        if len(parts) > 1:
            tenant = draft.session.compaction.tenant
            if services.ability.is_doubtful(tenant, summary_model.name):
                # One query shows whether the others would be in vain.
                probe = SummaryQuery(draft, summary_model, "transcript", services)
                return await probe.ask(parts[0])
            return await _in_parts(draft, parts, summary_model, services)
    failure = SummaryFailed("window")
    for query in [*fitting, *(query for query in queries if query not in fitting)]:
        try:
            return await query.ask(span)
        except SummaryFailed as error:
            failure = error
            if error.reason not in WORTH_ANOTHER_SHAPE:
                break
    raise failure


def _is_worth_a_ride(
    draft: SummaryDraft, summary_model: SummaryModel, services: SummaryServices
) -> bool:
    """Return whether a ride can be answered by a summary, and its prompt is probably cached."""
    if requires_tool_call(draft.session.compaction.request.fields):
        return False
    return services.ride_shares.may_ride(summary_model.base_url, summary_model.model)


async def _in_parts(
    draft: SummaryDraft, parts: list[Span], summary_model: SummaryModel, services: SummaryServices
) -> tuple[str, Span]:
    """Return one summary of several parts, which are summarised at the same time.

    It covers the parts before the first that failed: what no model saw is never claimed.
    """
    queries = [
        SummaryQuery(draft, summary_model, "transcript", services, part=(number, len(parts)))
        for number in range(len(parts))
    ]
    answers = await _answers(list(zip(queries, parts, strict=True)))
    texts: list[str] = []
    for answer in answers:
        if isinstance(answer, SummaryFailed):
            if not texts:
                raise answer
            break
        texts.append(answer)
    covered = Span(draft.start, parts[len(texts) - 1].end)
    session = draft.session
    policy = session.compaction.policy.summary
    texts = [draft.previous, *texts] if draft.previous else texts
    count = session.request_counter.count
    return await asyncio.to_thread(
        merged_within, texts, policy.summary_tokens(session.budget), count
    ), covered


async def _answers(asked: Sequence[tuple[SummaryQuery, Span]]) -> list[str | SummaryFailed]:
    """Ask for all parts at once, and once more for those that failed while others succeeded."""
    answers = await asyncio.gather(*starmap(_part, asked))
    failed = [index for index, answer in enumerate(answers) if not isinstance(answer, str)]
    if failed and len(failed) < len(asked):
        again = await asyncio.gather(*(_part(*asked[index]) for index in failed))
        for index, answer in zip(failed, again, strict=True):
            answers[index] = answer
    return answers


async def _part(query: SummaryQuery, part: Span) -> str | SummaryFailed:
    """Return the summary of a whole part; where the model was shown less, the rest is asked too."""
    texts: list[str] = []
    start = part.start
    while start < part.end:
        try:
            text, done = await query.ask(Span(start, part.end))
        except SummaryFailed as failure:
            return failure
        texts.append(text)
        start = done.end
    return merged_summaries(texts) if len(texts) > 1 else texts[0]
