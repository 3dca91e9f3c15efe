"""Connections that wait for the next request, the youngest first, and none for long."""

import asyncio

from chat_proxy.http.client.connection import Connection


class IdleConnections:
    """Idle connections by address; those that nobody takes in time are closed."""

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        self._seconds = seconds
        self._loop = loop
        self._idle: dict[str, list[Connection]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """The connections that wait and are still there."""
        waiting = (connection for idle in self._idle.values() for connection in idle)
        return sum(not connection.is_lost for connection in waiting)

    def take(self, key: str) -> Connection | None:
        """Return the connection to this address that was used last, if one is left."""
        idle = self._idle.get(key)
        oldest = self._loop.time() - self._seconds
        while idle:
            connection = idle.pop()
            if connection.may_be_kept and connection.idle_since >= oldest:
                return connection
            connection.break_off()
        return None

    def put(self, connection: Connection) -> None:
        """Keep a connection whose answer was read to its end."""
        connection.idle_since = self._loop.time()
        self._idle.setdefault(connection.key, []).append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._seconds, self._close_old)

    def close(self) -> None:
        """Close all of them and keep no more watch."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self._all():
            connection.break_off()
        self._idle.clear()

    def _all(self) -> list[Connection]:
        return [connection for idle in self._idle.values() for connection in idle]

    def _close_old(self) -> None:
        """Close what has waited too long, and come back while something is left."""
        oldest = self._loop.time() - self._seconds
        for key, idle in list(self._idle.items()):
            kept = [it for it in idle if it.idle_since > oldest and it.may_be_kept]
            for connection in idle:
                if connection not in kept:
                    connection.break_off()
            self._idle[key] = kept
            if not kept:
                del self._idle[key]
        again = bool(self._idle)
        self._sweep = self._loop.call_later(self._seconds, self._close_old) if again else None
