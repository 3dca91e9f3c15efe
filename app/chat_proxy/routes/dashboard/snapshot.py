"""The data of the dashboard: a whole snapshot, and updates for one viewer."""

from dataclasses import dataclass
from typing import Any

from chat_proxy.proxy.reporting.chat_log import ChatLog
from chat_proxy.routes.ops import Operations
from chat_proxy.telemetry.chat_history import Row
from chat_proxy.telemetry.totals import by_model

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
        return {"rows": rows, **self.figures(rows)}

    def figures(self, rows: list[Row]) -> Document:
        """Return the totals, the models and the state."""
        history = self.chat_log.history
        return {
            "totals": history.totals.document(),
            "since": history.since,
            "models": by_model(rows),
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
    """The updates of one viewer: first all rows, then only new ones."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._seen: dict[str, int] = {}
        self._state: Document | None = None

    async def news(self) -> Document | None:
        """Return the rows that the viewer does not have yet; None if nothing has changed."""
        history = self._snapshots.chat_log.history
        await history.refresh()
        rows = history.rows()
        new = [row for row in rows if row["number"] > self._seen.get(row["worker"], -1)]
        state = self._snapshots.state()
        if not new and state == self._state:
            return None
        self._state = state
        for row in new:
            self._seen[row["worker"]] = max(row["number"], self._seen.get(row["worker"], -1))
        return {"rows": new, **self._snapshots.figures(rows)}
