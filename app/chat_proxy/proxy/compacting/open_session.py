"""Open the compaction session of a request."""

from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.session.history_hashes import history_hashes
from chat_proxy.proxy.session.manual_mark import budget_or_assumed
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import CompactionSession
from chat_proxy.proxy.sizing.request_counter import RequestCounter


async def open_session(
    compaction: CompactionRequest, trimmed: CompactionResult, services: CompactionServices
) -> CompactionSession:
    """Return the session of a trimmed request, its history hashed."""
    return CompactionSession(
        compaction,
        budget_or_assumed(compaction),
        RequestCounter(compaction.request, compaction.measured, services.tokenizers),
        await history_hashes(compaction.conversation, len(compaction.request.body)),
        services.checkpoints,
        trimmed,
    )
