"""The stage that drops older turns when the user brings an image, which fills small windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chat_proxy.chat.conversation import Conversation, Turn, turns_by_role
from chat_proxy.chat.media import Media, media_in
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.compaction.stages.stage import StageContext, StageResult

# To the model, a video is a sequence of images.
_VISUAL_KINDS = ("image", "video")


@dataclass(frozen=True, slots=True)
class LimitVisionHistoryPolicy:
    """When older turns are dropped, and what is kept besides the current one."""

    enabled: bool
    keep_system: bool
    """Whether system and developer messages are kept, at any position."""
    keep_last_n_turns: int
    """How many turns before the current one are kept."""
    truncates_follow_ups: bool = False
    """Whether an image anywhere in the request counts, not only one of the current turn."""


class LimitVisionHistory:
    """Keep only the instructions, the last turns and the current one if the user shows an image.

    Turns begin and end between groups, so no call loses its result, however late it came. An image
    of an earlier turn or of a tool's result drops nothing: there the planner decides by size.
    """

    name = "limit_vision_history"

    def __init__(self, policy: LimitVisionHistoryPolicy) -> None:
        self._policy = policy

    def has_nothing_to_do(self, shape: MessageFeatures) -> bool:
        """Return whether there are no media, by the message features alone."""
        return shape.is_plain

    def __call__(self, conversation: Conversation, context: StageContext) -> StageResult:
        """Drop the older turns if the user shows an image, unless the model has no vision."""
        if not self._policy.enabled or context.can_see is False:
            return StageResult(conversation)
        if not self._is_triggered(conversation):
            return StageResult(conversation)
        kept = conversation.only(self._kept(conversation))
        if kept is conversation:
            return StageResult(conversation)
        return StageResult(kept, notice=self._notice(len(conversation), len(kept)))

    def _is_triggered(self, conversation: Conversation) -> bool:
        if self._policy.truncates_follow_ups:
            return _has_images(conversation)
        turn = conversation.current_turn
        return turn is not None and _shows_image(conversation, turn)

    def _kept(self, conversation: Conversation) -> Sequence[int]:
        """Return the indexes of the messages to keep: all if there are only instructions."""
        by_role = self._policy.truncates_follow_ups
        turns = turns_by_role(conversation) if by_role else conversation.turns
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


def _shows_image(conversation: Conversation, turn: Turn) -> bool:
    """Return whether the user shows an image in this turn; one in a tool's result is no showing."""
    return any(
        medium.kind in _VISUAL_KINDS and not _is_of_result(medium, fields)
        for fields in (conversation.fields[index] for index in turn.users)
        for medium in media_in(fields)
    )


def _is_of_result(medium: Media, fields: dict[str, Any]) -> bool:
    part: Any = fields
    for step in medium.path:
        part = part[step]
        if type(part) is dict and part.get("type") == "tool_result":
            return True
    return False


def _has_images(conversation: Conversation) -> bool:
    """Return whether there is an image or video anywhere, tool results included."""
    return any(
        medium.kind in _VISUAL_KINDS
        for fields in conversation.fields
        if type(fields.get("content")) in (list, dict)
        for medium in media_in(fields)
    )
