"""Conversations with something to see, under the stage that limits them."""

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.stages.limit_vision_history import (
    LimitVisionHistory,
    LimitVisionHistoryPolicy,
)
from chat_proxy.compaction.stages.stage import StageContext, StageResult
from tests.unit.chat.shapes import Fields, image, text, user

VIDEO = {"type": "video_url", "video_url": {"url": "https://a/b.mp4"}}


def limit(
    given: Conversation,
    *,
    can_see: bool | None = None,
    system: bool = True,
    turns: int = 0,
    truncates: bool = False,
) -> StageResult:
    """Limit a conversation; `truncates`: an image anywhere counts."""
    stage = LimitVisionHistory(LimitVisionHistoryPolicy(True, system, turns, truncates))
    return stage(given, StageContext(can_see=can_see))


def looks(words: str = "What is this?") -> Fields:
    return user([text(words), image()])
