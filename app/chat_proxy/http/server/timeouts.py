"""The clock of a connection: for a request's arrival, for the pause before the next one."""

import asyncio
import socket
from math import inf
from typing import Protocol

from chat_proxy.http.server.flow import Flow

NOT_YET = 0.0


class Timed(Protocol):
    """What waits for its client."""

    loop: asyncio.AbstractEventLoop
    flow: Flow

    def wait_ends(self, began: float) -> float:
        """Return until when to wait, as far as is known now; for ever where nothing is awaited."""
        ...

    def on_late(self) -> None:
        """Learn that it took longer."""
        ...


class ReceiveTimer:
    """Measures one wait at a time, by one timer for all of them.

    To begin a wait only stores a number. The timer looks at it at least as often as the shortest
    wait may last, so that it comes late for none.
    """

    __slots__ = ("_connection", "_tick_seconds", "_timer", "began")

    def __init__(self, connection: Timed, tick_seconds: float) -> None:
        self._connection = connection
        self._tick_seconds = tick_seconds
        self._timer: asyncio.TimerHandle | None = None
        self.began = NOT_YET

    def start(self) -> None:
        """Begin to wait now."""
        self.began = self._connection.loop.time()
        if self._timer is None:
            self._look_in(self._tick_seconds)

    def stop(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_in(self, seconds: float) -> None:
        self._timer = self._connection.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Tell when a wait is over; time in which the proxy itself does not read is free."""
        self._timer = None
        left = self._connection.wait_ends(self.began) - self._connection.loop.time()
        if left == inf:
            return
        if left > 0:
            self._look_in(min(left, self._tick_seconds))
        elif self._connection.flow.read_paused:
            self.start()
        else:
            self._connection.on_late()


def give_up_unread(transport: asyncio.Transport, seconds: float) -> None:
    """Have the kernel break a connection whose client takes nothing for so long.

    Nobody else would once the answer is complete: closing waits until everything has been sent.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
