"""The data of the dashboard: a whole snapshot, and updates that all viewers share."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import orjson

from chat_proxy.proxy.reporting.chat_log import ChatLog
from chat_proxy.routes.ops import Operations
from chat_proxy.telemetry.chat_history import Row

# Viewers look a little less often, each at its own time.
FRESH_SECONDS = 0.35
# For viewers that were late; one that missed more gets all rows again.
KEPT_UPDATES = 8
SHOWN_MODELS = 20

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Build the documents that the dashboard shows."""

    chat_log: ChatLog
    operations: Operations
    mode: str

    def snapshot(self) -> Document:
        """Return the latest chats of all processes, their totals, and the state of this one."""
        rows = self.chat_log.history.rows()
        return {"rows": rows, **self.figures()}

    def figures(self) -> Document:
        """Return the totals, the models and the state."""
        history = self.chat_log.history
        totals = history.totals
        document = totals.document()
        del document["models"]
        return {
            "totals": document,
            "since": history.since,
            "models": totals.by_model()[:SHOWN_MODELS],
            "state": self.state(),
        }

    def state(self) -> Document:
        """Return the state of this process."""
        return {
            "workers": self.chat_log.history.workers,
            "worker": self.chat_log.history.own.worker,
            "store_degraded": self.operations.store.is_degraded,
            "open_breakers": self.operations.breakers.open_count(),
            "models_without_summaries": self.operations.storm_guard.storm_count(),
            "mode": self.mode,
            "stopping": self.operations.drain.is_stopping,
            "shows_text": self.chat_log.shows_text,
        }


class Feed:
    """The updates of all viewers, each built and serialised once, and only while someone looks.

    Shared by operators only. Bounded by the rows of the history and by KEPT_UPDATES.
    """

    def __init__(self, snapshots: Snapshots, clock: Callable[[], float] = time.monotonic) -> None:
        self.number = 0
        """The number of the latest update."""
        self._snapshots = snapshots
        self._clock = clock
        self._built_at = -inf
        self._seen: dict[str, int] = {}
        self._rows: list[Row] = []
        self._figures: Document = {}
        self._updates: deque[bytes] = deque(maxlen=KEPT_UPDATES)
        self._whole: bytes | None = None

    async def refresh(self) -> None:
        """Build the next update if the latest is old and something has changed since."""
        now = self._clock()
        if now - self._built_at < FRESH_SECONDS:
            return
        self._built_at = now
        history = self._snapshots.chat_log.history
        await history.refresh()
        rows = history.rows()
        new = [row for row in rows if row["number"] > self._seen.get(row["worker"], -1)]
        if not new and self._snapshots.state() == self._figures.get("state"):
            return
        for row in new:
            self._seen[row["worker"]] = max(row["number"], self._seen.get(row["worker"], -1))
        self._rows, self._figures, self._whole = rows, self._snapshots.figures(), None
        self._updates.append(event_of({"rows": new, **self._figures}))
        self.number += 1

    def since(self, number: int) -> bytes:
        """Return the events after an update; all rows at once if it was too long ago, or none."""
        missed = self.number - number
        if not missed:
            return b""
        if number and missed <= len(self._updates):
            return b"".join(list(self._updates)[-missed:])
        if self._whole is None:
            self._whole = event_of({"rows": self._rows, **self._figures})
        return self._whole


class Viewer:
    """One open page: the latest update of the feed that it has."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._number = 0

    async def news(self) -> bytes:
        """Return the events that the page does not have yet: first all rows, then new ones."""
        await self._feed.refresh()
        events, self._number = self._feed.since(self._number), self._feed.number
        return events


def event_of(document: Document) -> bytes:
    """Return a document as a server-sent event."""
    return b"data: " + orjson.dumps(document) + b"\n\n"
