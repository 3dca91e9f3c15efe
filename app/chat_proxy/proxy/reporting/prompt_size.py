"""The size of a request as it would be sent: after compaction, without sending or storing it."""

from typing import NamedTuple

from chat_proxy.proxy.compacting.decide import decide, nothing_to_do
from chat_proxy.proxy.compacting.open_session import open_session
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.compacting.trim import trim
from chat_proxy.proxy.session.manual_mark import repeat_decisions
from chat_proxy.proxy.session.request import (
    CompactionRequest,
    CompactionResult,
    unchanged_result,
)


class PromptSize(NamedTuple):
    """The tokens of a request as the client sent it, and as the upstream would get it."""

    before: int
    after: int
    label: str
    is_changed: bool = False


async def prompt_size(compaction: CompactionRequest, services: CompactionServices) -> PromptSize:
    """Return the size of a request, which must be a dry run."""
    result = await _result_of(compaction, services)
    return PromptSize(
        compaction.measured.tokens,
        result.token_count.tokens,
        result.label,
        result.conversation is not compaction.conversation,
    )


def size_unchanged(compaction: CompactionRequest) -> PromptSize:
    """Return the size of a request that is sent as it is."""
    tokens = compaction.measured.tokens
    return PromptSize(tokens, tokens, "none")


async def _result_of(
    compaction: CompactionRequest, services: CompactionServices
) -> CompactionResult:
    if nothing_to_do(compaction, services.checkpoints):
        return unchanged_result(compaction)
    trimmed = await trim(compaction, services)
    result = await decide(compaction, trimmed, services)
    if result.plan is None or not result.plan.is_waiting:
        return result
    # Until the summary is ready, only what was decided before is applied.
    return await repeat_decisions(await open_session(compaction, trimmed, services))
