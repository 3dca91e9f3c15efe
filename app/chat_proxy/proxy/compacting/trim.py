"""Trim a request: run the stages that look at single messages or media only."""

from functools import partial

from chat_proxy.compaction.pipeline import Step, Trimmed
from chat_proxy.compaction.stages.stage import StageContext
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.compacting.clear import clear_thinking
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.session.images.smaller_images import with_fewer_pixels
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import SCALE_IMAGES
from chat_proxy.proxy.sizing.request_counter import RequestCounter


async def trim(compaction: CompactionRequest, services: CompactionServices) -> CompactionResult:
    """Return the trimmed request; a text that could not be stored whole first is not cut."""
    originals = services.originals
    naming = originals.naming(compaction.tenant)
    context = StageContext(compaction.route.card.vision, naming, originals.file_of)
    trimmed = await _run_stages(compaction, context)
    if trimmed.offloads and not compaction.is_dry_run:
        unkept = await originals.keep_results(compaction.tenant, trimmed.offloads)
        services.metrics.offloads.labels("kept").inc(len(trimmed.offloads) - len(unkept))
        services.metrics.offloads.labels("refused").inc(len(unkept))
        if unkept:
            trimmed = await _run_stages(compaction, context._replace(whole=unkept))
    max_pixels = compaction.policy.max_pixels
    if max_pixels and not trimmed.conversation.shape.is_plain:
        trimmed = await _with_fewer_pixels(trimmed, max_pixels, compaction, services)
    counter = RequestCounter(compaction.request, compaction.measured, services.tokenizers)
    token_count = await counter.count_conversation(trimmed.conversation)
    result = CompactionResult(
        trimmed.conversation, token_count, trimmed.steps, trimmed.failures, trimmed.notices
    )
    return await clear_thinking(compaction, result, counter)


async def _with_fewer_pixels(
    trimmed: Trimmed, max_pixels: int, compaction: CompactionRequest, services: CompactionServices
) -> Trimmed:
    before = trimmed.conversation
    after = await with_fewer_pixels(before, max_pixels, compaction.tenant, services.images.scaled)
    if after is before:
        return trimmed
    return trimmed._replace(conversation=after, steps=(*trimmed.steps, Step(SCALE_IMAGES, after)))


async def _run_stages(compaction: CompactionRequest, context: StageContext) -> Trimmed:
    work = partial(compaction.policy.pipeline.trim, compaction.conversation, context)
    return await run_inline_or_in_thread(work, compaction.request.work_bytes)
