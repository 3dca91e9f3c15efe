"""Ending an exchange from outside: the client left, time is up, the server stops."""

import asyncio
from types import TracebackType
from typing import Self

from chat_proxy.errors import ClientGone, ProxyError


class Cancellation:
    """Wraps the body of an exchange; `stop(reason)` makes it raise that reason where it waits."""

    __slots__ = ("_cancelled_before", "_loop", "_task", "reason")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Be of this loop, or of whichever runs: to ask for that is a system call before 3.12."""
        self._loop = loop
        self._task: asyncio.Task[object] | None = None
        self._cancelled_before = 0
        self.reason: ProxyError | None = None

    def stop(self, reason: ProxyError) -> None:
        """End the exchange; the first reason counts."""
        if self.reason is None and self._task is not None:
            self.reason = reason
            self._task.cancel()

    def client_left(self) -> None:
        """End an exchange whose client is gone."""
        self.stop(ClientGone())

    def __enter__(self) -> Self:
        self._task = task = asyncio.current_task(self._loop)
        assert task is not None
        self._cancelled_before = task.cancelling()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        places: TracebackType | None,
    ) -> None:
        """Raise the reason in place of our cancellation; somebody else's goes on."""
        task, self._task = self._task, None
        if self.reason is None or task is None:
            return
        is_ours = task.uncancel() <= self._cancelled_before
        if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise self.reason from None
