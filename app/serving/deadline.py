"""Deadlines of a connection: for a request's arrival, and for a client that takes no answer."""

import asyncio
import socket
from typing import Protocol

from app.serving.flow import Flow


class Timed(Protocol):
    """What has to arrive in time."""

    loop: asyncio.AbstractEventLoop
    flow: Flow

    def allowed_seconds(self) -> float:
        """Return how long the arrival may take, as far as is known now."""
        ...

    def on_late(self) -> None:
        """Learn that it took longer."""
        ...


class Deadline:
    """Runs from its making until it is cancelled; time while the proxy does not read is free."""

    __slots__ = ("_arrival", "_began", "_handle")

    def __init__(self, arrival: Timed) -> None:
        self._arrival = arrival
        self._began = arrival.loop.time()
        self._watch()

    def cancel(self) -> None:
        """Stop the clock."""
        self._handle.cancel()

    def _watch(self) -> None:
        self._handle = self._arrival.loop.call_at(self._ends(), self._look)

    def _ends(self) -> float:
        return self._began + self._arrival.allowed_seconds()

    def _look(self) -> None:
        """Say that it is late, unless the end has moved."""
        now = self._arrival.loop.time()
        if self._arrival.flow.read_paused:
            self._began = now
            self._watch()
        elif now < self._ends():
            self._watch()
        else:
            self._arrival.on_late()


def give_up_unread(transport: asyncio.Transport, seconds: float) -> None:
    """Have the kernel break a connection whose client takes nothing for so long.

    Nobody else would once the answer is complete: closing waits until everything has been sent.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
