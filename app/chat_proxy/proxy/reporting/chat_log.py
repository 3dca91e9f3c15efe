"""Where finished chats are kept for the operator's page."""

import time
from collections.abc import Callable

from chat_proxy.proxy.reporting.shared_chat_log import SharedChatLog
from chat_proxy.store.base import Store
from chat_proxy.telemetry.chat_history import ChatHistory
from chat_proxy.telemetry.record import RequestRecord

MOST_DETAILS = 100
DETAILS_PER_SECOND = 20
DETAIL_SECONDS = 1 / DETAILS_PER_SECOND
# With half a detail more, so that no rounding costs one.
BURST_SECONDS = (MOST_DETAILS + 0.5) * DETAIL_SECONDS


class ChatLog:
    """Keeps every chat for the operator's page, unless there is none."""

    def __init__(
        self,
        store: Store,
        *,
        enabled: bool,
        show_text: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.history = SharedChatLog(store, ChatHistory())
        self.is_kept = enabled
        self.shows_text = show_text
        self._clock = clock
        self._paid_until = 0.0

    def open(self) -> None:
        """Begin to share the history."""
        if self.is_kept:
            self.history.open()

    async def close(self) -> None:
        """Share the rest."""
        if self.is_kept:
            await self.history.close()

    def takes_detail(self) -> bool:
        """Tell whether one more chat may be told in detail: under load it would cost too much."""
        now = self._clock()
        paid_until = max(now, self._paid_until) + DETAIL_SECONDS
        if paid_until > now + BURST_SECONDS:
            return False
        self._paid_until = paid_until
        return True

    def add(self, record: RequestRecord) -> None:
        """Take in a finished exchange."""
        if self.is_kept:
            self.history.own.add(record)
