"""The stages in the order in which they run."""

from collections.abc import Iterator
from dataclasses import dataclass

from chat_proxy.compaction.stages.limit_vision_history import (
    LimitVisionHistory,
    LimitVisionHistoryPolicy,
)
from chat_proxy.compaction.stages.stage import Stage
from chat_proxy.compaction.stages.strip_media import StripMedia, StripMediaPolicy
from chat_proxy.compaction.stages.truncate_tool_output import (
    TruncateToolOutput,
    TruncateToolOutputPolicy,
)


@dataclass(frozen=True, slots=True)
class StagePolicies:
    """The policies of all stages."""

    limit_vision_history: LimitVisionHistoryPolicy
    strip_media: StripMediaPolicy
    truncate_tool_output: TruncateToolOutputPolicy


def trimming_stages(policies: StagePolicies) -> Iterator[Stage]:
    """Yield the stages that run on every request."""
    if policies.limit_vision_history.enabled:
        yield LimitVisionHistory(policies.limit_vision_history)
    if policies.strip_media.enabled:
        yield StripMedia(policies.strip_media)
    if policies.truncate_tool_output.enabled:
        yield TruncateToolOutput(policies.truncate_tool_output)
