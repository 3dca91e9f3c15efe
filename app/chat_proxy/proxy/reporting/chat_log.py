"""The log of finished chats that the dashboard shows."""

import time
from collections.abc import Callable

from chat_proxy.compaction.pipeline import Failure, attempt
from chat_proxy.proxy.reporting.chat_detail import RecordedChat, detail_of
from chat_proxy.proxy.reporting.conversation_name import name_of
from chat_proxy.proxy.reporting.shared_chat_log import SharedChatLog
from chat_proxy.store.base import Store
from chat_proxy.telemetry.chat_history import ChatHistory
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.telemetry.record import RequestRecord

MAX_DETAILS = 100
DETAILS_PER_SECOND = 20
DETAIL_SECONDS = 1 / DETAILS_PER_SECOND
# Half a detail more, so that rounding errors do not cost one.
BURST_SECONDS = (MAX_DETAILS + 0.5) * DETAIL_SECONDS


class ChatLog:
    """Keep every finished chat for the dashboard, unless it is disabled; bounded by its history."""

    def __init__(
        self,
        store: Store,
        *,
        enabled: bool,
        show_text: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self.history = SharedChatLog(store, ChatHistory())
        self.is_kept = enabled
        self.shows_text = show_text
        self._clock = clock
        self._paid_until = 0.0

    async def close(self) -> None:
        """Write what is pending, for other processes."""
        if self.is_kept:
            await self.history.close()

    def takes_detail(self) -> bool:
        """Return whether one more chat may be recorded in detail; under load it may not."""
        now = self._clock()
        paid_until = max(now, self._paid_until) + DETAIL_SECONDS
        if paid_until > now + BURST_SECONDS:
            return False
        self._paid_until = paid_until
        return True

    def add(self, record: RequestRecord) -> None:
        """Add a finished request, with its detail; a failure there leaves the detail out."""
        chat, record.chat = record.chat, None
        if not self.is_kept:
            return
        if isinstance(chat, RecordedChat):
            described = attempt("dashboard", self._describe, record, chat)
            if isinstance(described, Failure):
                log_exception("request could not be recorded for the dashboard", described.error)
        self.history.add(record)

    def _describe(self, record: RequestRecord, chat: RecordedChat) -> None:
        """Name the chat's conversation, and make its detail.

        Under load a chat that continues no earlier one has neither.
        """
        conversation, tenant = chat.compaction.conversation, chat.compaction.tenant
        is_detailed = self.takes_detail()
        if is_detailed or conversation.beginning.messages:
            record.conversation = name_of(conversation, tenant, self._store)
        if is_detailed:
            record.detail = detail_of(chat, show_text=self.shows_text)
