"""Conversations with something to see, under the stage that limits them."""

from app.chat.conversation import Conversation
from app.compaction.stage import StageContext, StageResult
from app.compaction.stages.limit_vision_history import LimitVisionHistory, LimitVisionHistoryPolicy
from tests.conversation.shapes import Fields, image, text, user

VIDEO = {"type": "video_url", "video_url": {"url": "https://a/b.mp4"}}


def limit(
    given: Conversation, *, can_see: bool | None = None, system: bool = True, turns: int = 0
) -> StageResult:
    stage = LimitVisionHistory(LimitVisionHistoryPolicy(True, system, turns))
    return stage(given, StageContext(can_see=can_see))


def looks(words: str = "What is this?") -> Fields:
    return user([text(words), image()])
