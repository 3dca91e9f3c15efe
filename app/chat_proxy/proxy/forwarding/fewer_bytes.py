"""A request in fewer bytes, for an upstream that limits the body's size and not its tokens."""

from collections.abc import Iterator
from dataclasses import replace

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.drop_media import without_current_media, without_older_media
from chat_proxy.compaction.stages.stage import StageContext
from chat_proxy.compaction.stages.truncate_tool_output import (
    TruncateToolOutput,
    TruncateToolOutputPolicy,
)
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.session.images.smaller_images import with_fewer_pixels
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult, body_of
from chat_proxy.proxy.sizing.request_counter import RequestCounter

MAX_MEDIA_STEPS = 8
SMALL_PIXELS = 512 * 512
"""The pixels of images in a body that was refused for its bytes."""
RESULT_BYTES = (16_000, 8_000, 4_000, 2_000, 1_000, 500, 250)
"""The sizes that tool results are cut to as a last resort, step by step."""


async def with_fewer_bytes(
    compaction: CompactionRequest,
    outcome: CompactionResult,
    body: bytes,
    services: CompactionServices,
    *,
    is_last: bool,
) -> CompactionResult | None:
    """Return the first form with a smaller body: smaller images, fewer media, shorter results.

    Before the last replay it is the smallest form that there is.
    """
    counter = RequestCounter(compaction.request, compaction.measured, services.tokenizers)
    forms = list(_ladder(outcome.conversation, compaction))
    if is_last:
        forms.reverse()
    else:
        smaller = await _with_smaller_images(outcome.conversation, compaction, services)
        forms = [smaller, *forms]
    for conversation in forms:
        if len(body_of(compaction, conversation)) < len(body):
            token_count = await counter.count_conversation(conversation)
            return outcome._replace(conversation=conversation, token_count=token_count)
    return None


async def _with_smaller_images(
    conversation: Conversation, compaction: CompactionRequest, services: CompactionServices
) -> Conversation:
    """Return the conversation with images of a size that few upstreams refuse."""
    return await with_fewer_pixels(
        conversation, SMALL_PIXELS, compaction.tenant, services.images.scaled
    )


def _ladder(conversation: Conversation, compaction: CompactionRequest) -> Iterator[Conversation]:
    fewer = conversation
    for fewer in media_ladder(conversation):
        yield fewer
    yield from results_ladder(fewer, compaction.policy.stages.truncate_tool_output)


def results_ladder(
    conversation: Conversation, policy: TruncateToolOutputPolicy
) -> Iterator[Conversation]:
    """Yield the conversation with its tool results cut shorter and shorter."""
    for max_bytes in RESULT_BYTES if policy.enabled else ():
        cut = TruncateToolOutput(replace(policy, max_bytes=min(max_bytes, policy.max_bytes)))
        shorter = cut(conversation, StageContext()).conversation
        if shorter is not conversation:
            yield shorter


def media_ladder(conversation: Conversation) -> Iterator[Conversation]:
    """Yield the conversation without older media, then with fewer and fewer current ones.

    The steps are few, however many media there are, because each is written and counted again.
    """
    older = without_older_media(conversation)
    if older is not conversation:
        yield older
    media = sum(1 for message in older.messages for _ in message.media())
    for keep in sorted(
        {media * step // MAX_MEDIA_STEPS for step in range(MAX_MEDIA_STEPS)}, reverse=True
    ):
        step = without_current_media(older, keep)
        if step is not older:
            yield step
