"""Where finished chats are kept for the operator's page."""

import time
from collections.abc import Callable

from app.proxy.shared_history import SharedHistory
from app.store.base import Store
from app.telemetry.history import History
from app.telemetry.record import ExchangeRecord

MOST_DETAILS = 100
DETAILS_PER_SECOND = 20


class Exchanges:
    """Keeps every chat for the operator's page, unless there is none."""

    def __init__(
        self,
        store: Store,
        *,
        enabled: bool,
        show_text: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.history = SharedHistory(store, History())
        self.is_kept = enabled
        self.shows_text = show_text
        self._clock = clock
        self._credit = float(MOST_DETAILS)
        self._credit_at = clock()

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
        earned = (now - self._credit_at) * DETAILS_PER_SECOND
        self._credit = min(MOST_DETAILS, self._credit + earned)
        self._credit_at = now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True

    def add(self, record: ExchangeRecord) -> None:
        """Take in a finished exchange."""
        if self.is_kept:
            self.history.own.add(record)
