"""Timeouts of a client connection: for a request's arrival, and for the pause between requests."""

import asyncio
import socket
from math import inf
from typing import Protocol

from chat_proxy.http.server.flow import Flow

NOT_YET = 0.0

KERNEL_FACTOR = 2


class Timed(Protocol):
    """A connection that waits for its client."""

    loop: asyncio.AbstractEventLoop
    flow: Flow

    def wait_ends(self, began: float) -> float:
        """Return when the current wait ends; infinity while nothing is awaited."""
        ...

    def on_late(self) -> None:
        """Handle a wait that took too long."""
        ...


class ReceiveTimer:
    """Measure one wait at a time, with one timer for all waits of a connection.

    Beginning a wait only stores a number. The timer checks it at least as often as the shortest
    timeout, so that no timeout is late by more than that.
    """

    __slots__ = ("_connection", "_tick_seconds", "_timer", "began")

    def __init__(self, connection: Timed, tick_seconds: float) -> None:
        self._connection = connection
        self._tick_seconds = tick_seconds
        self._timer: asyncio.TimerHandle | None = None
        self.began = NOT_YET

    def start(self) -> None:
        """Begin a wait."""
        self.began = self._connection.loop.time()
        if self._timer is None:
            self._look_in(self._tick_seconds)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_in(self, seconds: float) -> None:
        self._timer = self._connection.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Check whether the wait is over; time in which the proxy itself pauses reading is free."""
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
    """Let the kernel break a connection whose client reads nothing for twice as long.

    Once the answer is complete nothing else would: a close waits until everything has been sent.
    Until then the app gives up first, and reports a stalled client instead of one that has left.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection = transport.get_extra_info("socket")
        milliseconds = int(KERNEL_FACTOR * seconds * 1000)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
