"""What the operator's page shows, as one document, and what is new in it since the last look."""

from typing import Any

from chat_proxy.proxy.services import Services
from chat_proxy.telemetry.chat_history import Row
from chat_proxy.telemetry.totals import by_model

Document = dict[str, Any]


def snapshot(services: Services) -> Document:
    """Return the latest chats of all processes, their sums, and how this one is."""
    rows = services.chat_log.history.rows()
    return {"rows": rows, **figures(services, rows)}


def figures(services: Services, rows: list[Row]) -> Document:
    """Return the sums, the models and the state."""
    history = services.chat_log.history
    return {
        "totals": history.totals.document(),
        "since": history.since,
        "models": by_model(rows),
        "state": state_of(services),
    }


def state_of(services: Services) -> Document:
    """Return what an operator should know at a glance."""
    return {
        "workers": services.chat_log.history.workers,
        "worker": services.chat_log.history.own.worker,
        "store_degraded": bool(getattr(services.store, "is_degraded", False)),
        "open_breakers": services.upstream.breakers.open_ones(),
        "mode": services.policy.mode,
        "stopping": services.drain.is_stopping,
        "shows_text": services.chat_log.shows_text,
    }


class Feed:
    """Tells one viewer everything once, and then what is new."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._seen: dict[str, int] = {}
        self._state: Document | None = None

    async def news(self) -> Document | None:
        """Return what the viewer does not know yet, or None if there is nothing."""
        await self._services.chat_log.history.refresh()
        rows = self._services.chat_log.history.rows()
        new = [row for row in rows if row["number"] > self._seen.get(row["worker"], -1)]
        state = state_of(self._services)
        if not new and state == self._state:
            return None
        self._state = state
        for row in new:
            self._seen[row["worker"]] = max(row["number"], self._seen.get(row["worker"], -1))
        return {"rows": new, **figures(self._services, rows)}
