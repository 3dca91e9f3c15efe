"""Graceful shutdown: announce it, finish running answers, end the rest with an error."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from socket import socket
from types import FrameType
from typing import Protocol

import uvicorn

LAST_WORDS_SECONDS = 5
HURRIED_SECONDS = 1.5

_NO_FIELDS: dict[str, object] = {"fields": {}}
_log = logging.getLogger("chat_proxy.server")
_uvicorn_log = logging.getLogger("uvicorn.error")


class Drain(Protocol):
    """The application's side of a shutdown."""

    def begin(self) -> None:
        """Announce that the server is about to stop."""
        ...

    def refuse_work(self) -> None:
        """Refuse new requests from now on."""
        ...

    def interrupt_all(self) -> None:
        """End every running request with an error."""
        ...


@dataclass(frozen=True, slots=True)
class DrainPolicy:
    """How long new requests are still accepted, and how long running ones may go on."""

    grace_seconds: float
    seconds: float


class GracefulServer(uvicorn.Server):
    """uvicorn's server, which drains before it stops.

    The first SIGTERM turns /readyz to 503 and, after the grace, closes the listener; SIGINT does
    so without the grace. Running answers go on until the deadline, then end with an error frame.
    A second signal ends them at once.
    """

    def __init__(self, config: uvicorn.Config, policy: DrainPolicy, drain: Drain) -> None:
        config.timeout_graceful_shutdown = int(policy.seconds + LAST_WORDS_SECONDS)
        super().__init__(config)
        self._policy = policy
        self._drain = drain
        self._exit_at: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Start as uvicorn does, and log the address; the app has logged a failure itself."""
        _uvicorn_log.disabled = True
        try:
            await super().startup(sockets)
        finally:
            _uvicorn_log.disabled = False
        self._loop = asyncio.get_running_loop()
        _log.info("server started", extra={"fields": {"address": address_of(sockets)}})

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's
        """Begin to stop; end running answers at once on a second signal."""
        if self._exit_at is None:
            grace = 0.0 if sig == signal.SIGINT else self._policy.grace_seconds
            self._exit_at = time.monotonic() + grace
            self._call_soon(self._begin)
        else:
            self.should_exit = True
            self._call_soon(self._stop_at_once)

    async def on_tick(self, counter: int) -> bool:
        """Leave the main loop when the grace period is over."""
        if self._exit_at is not None and time.monotonic() >= self._exit_at:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Refuse new work, wait for running answers, end those that take too long."""
        self._drain.refuse_work()
        loop = asyncio.get_running_loop()
        last_call = loop.call_later(self._policy.seconds, self._drain.interrupt_all)
        await super().shutdown(sockets)
        last_call.cancel()
        _log.info("server stopped", extra=_NO_FIELDS)

    def _begin(self) -> None:
        _log.info("server stopping", extra=_NO_FIELDS)
        self._drain.begin()

    def _stop_at_once(self) -> None:
        _log.info("server stopping at once", extra=_NO_FIELDS)
        self._drain.refuse_work()
        self._drain.interrupt_all()
        assert self._loop is not None
        self._loop.call_later(HURRIED_SECONDS, self._force)

    def _force(self) -> None:
        self.force_exit = True

    def _call_soon(self, step: Callable[[], None]) -> None:
        """Call a function in the event loop: a signal may arrive at any point of the code."""
        if self._loop is None:
            self.should_exit = True
        else:
            self._loop.call_soon_threadsafe(step)


def address_of(sockets: list[socket] | None) -> str:
    """Return the URL of the first socket, empty without one."""
    if not sockets:
        return ""
    host, port = sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
