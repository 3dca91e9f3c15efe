"""The stage that replaces media by short notes for a model without vision, which refuses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.media import Media, media_in
from chat_proxy.chat.message import Message
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.compaction.stages.stage import StageContext, StageResult


@dataclass(frozen=True, slots=True)
class StripMediaPolicy:
    """Whether media are removed for models without vision."""

    enabled: bool


class StripMedia:
    """Replace images, audio, video and files by a note with their type, nested ones too.

    Every message keeps its position, texts and fields, so pairs of call and result stay valid.
    """

    name = "strip_media"

    def __init__(self, policy: StripMediaPolicy) -> None:
        self._enabled = policy.enabled

    def has_nothing_to_do(self, shape: MessageFeatures) -> bool:
        """Return whether there are no media, by the message features alone."""
        return shape.is_plain

    def __call__(self, conversation: Conversation, context: StageContext) -> StageResult:
        """Replace every medium if the model is known to have no vision."""
        if not self._enabled or context.can_see is not False:
            return StageResult(conversation)
        changed = {}
        for index, fields in enumerate(conversation.fields):
            if type(fields.get("content")) in (list, dict) and (media := tuple(media_in(fields))):
                changed[index] = _stripped(Message(fields), media)
        return StageResult(conversation.with_messages(changed))


def _stripped(message: Message, media: Sequence[Media]) -> Message:
    return message.with_parts({medium.path: _note(medium, message) for medium in media})


def _note(medium: Media, message: Message) -> dict[str, Any]:
    """Return a text part with the medium's type; `cache_control` still ends the same prefix."""
    part: Any = message.fields
    for step in medium.path:
        part = part[step]
    note: dict[str, Any] = {"type": "text", "text": f"[{medium.kind}: {medium.mime}]"}
    if "cache_control" in part:
        note["cache_control"] = part["cache_control"]
    return note
