"""Older turns go once a conversation has an image: on a small window it fills the rest."""

from collections.abc import Sequence
from dataclasses import dataclass

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.media import media_in
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.compaction.stages.stage import StageContext, StageResult

# A film is a row of images to the model.
_SEEN_KINDS = ("image", "video")


@dataclass(frozen=True, slots=True)
class LimitVisionHistoryPolicy:
    """What stays of a conversation with images beside its current turn."""

    enabled: bool
    keep_system: bool
    """System and developer messages stay, wherever they stand."""
    keep_last_n_turns: int
    """Turns that stay before the current one."""


class LimitVisionHistory:
    """Keep the instructions, the last turns and the current one, if there is an image anywhere.

    Turns begin and end between groups, so no call loses its result, however late it came.
    """

    name = "limit_vision_history"

    def __init__(self, policy: LimitVisionHistoryPolicy) -> None:
        self._policy = policy

    def leaves_alone(self, shape: MessageFeatures) -> bool:
        """Tell at a glance that there are no media."""
        return shape.is_plain

    def __call__(self, conversation: Conversation, context: StageContext) -> StageResult:
        """Drop the older turns of a conversation that the model is to look at."""
        if not self._policy.enabled or context.can_see is False or not _shows(conversation):
            return StageResult(conversation)
        kept = conversation.only(self._kept(conversation))
        if kept is conversation:
            return StageResult(conversation)
        return StageResult(kept, notice=self._notice(len(conversation), len(kept)))

    def _kept(self, conversation: Conversation) -> Sequence[int]:
        """Return the places of the messages that stay; instructions alone all stay."""
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


def _shows(conversation: Conversation) -> bool:
    """Tell whether there is an image or film anywhere, in a tool's result too."""
    return any(
        medium.kind in _SEEN_KINDS
        for fields in conversation.fields
        if type(fields.get("content")) in (list, dict)
        for medium in media_in(fields)
    )
