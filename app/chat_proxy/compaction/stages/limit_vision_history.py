"""The stage that drops older turns once a conversation has an image, which fills small windows."""

from collections.abc import Sequence
from dataclasses import dataclass

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.media import media_in
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.compaction.stages.stage import StageContext, StageResult

# To the model, a video is a sequence of images.
_VISUAL_KINDS = ("image", "video")


@dataclass(frozen=True, slots=True)
class LimitVisionHistoryPolicy:
    """What is kept of a conversation with images besides its current turn."""

    enabled: bool
    keep_system: bool
    """Whether system and developer messages are kept, at any position."""
    keep_last_n_turns: int
    """How many turns before the current one are kept."""


class LimitVisionHistory:
    """Keep only the instructions, the last turns and the current one if there is an image.

    Turns begin and end between groups, so no call loses its result, however late it came.
    """

    name = "limit_vision_history"

    def __init__(self, policy: LimitVisionHistoryPolicy) -> None:
        self._policy = policy

    def has_nothing_to_do(self, shape: MessageFeatures) -> bool:
        """Return whether there are no media, by the message features alone."""
        return shape.is_plain

    def __call__(self, conversation: Conversation, context: StageContext) -> StageResult:
        """Drop the older turns of a conversation with images, unless the model has no vision."""
        if not self._policy.enabled or context.can_see is False or not _has_images(conversation):
            return StageResult(conversation)
        kept = conversation.only(self._kept(conversation))
        if kept is conversation:
            return StageResult(conversation)
        return StageResult(kept, notice=self._notice(len(conversation), len(kept)))

    def _kept(self, conversation: Conversation) -> Sequence[int]:
        """Return the indexes of the messages to keep: all if there are only instructions."""
        turns = conversation.turns
        if not turns:
            return range(len(conversation))
        oldest = turns[max(0, len(turns) - 1 - self._policy.keep_last_n_turns)]
        recent = range(oldest.start, len(conversation))
        if not self._policy.keep_system:
            return recent
        earlier = enumerate(conversation.messages[: oldest.start])
        return [*(index for index, message in earlier if message.is_instruction), *recent]

    def _notice(self, before: int, after: int) -> str:
        return (
            f"[forwarder] Truncated vision history: {before} → {after} messages"
            f" (keep_system={self._policy.keep_system},"
            f" keep_last_n_turns={self._policy.keep_last_n_turns})"
        )


def _has_images(conversation: Conversation) -> bool:
    """Return whether there is an image or video anywhere, tool results included."""
    return any(
        medium.kind in _VISUAL_KINDS
        for fields in conversation.fields
        if type(fields.get("content")) in (list, dict)
        for medium in media_in(fields)
    )
