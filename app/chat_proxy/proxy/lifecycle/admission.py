"""Admission: a limit on the bytes of request bodies that are held at once."""

from chat_proxy.errors import Overloaded, ServerShuttingDown
from chat_proxy.proxy.lifecycle.cancellation import Cancellation


class Admission:
    """A budget of bytes that all running requests of the process share."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0

    def reserve(self, size: int) -> None:
        """Reserve bytes or raise Overloaded; a lone request is never refused for its size."""
        if self.held_bytes and self.held_bytes + size > self._max_bytes:
            raise Overloaded(retry_after=1)
        self.held_bytes += size

    def release(self, size: int) -> None:
        """Release reserved bytes."""
        self.held_bytes -= size


class Drain:
    """Track running requests and the server's shutdown."""

    def __init__(self) -> None:
        self.is_stopping = False
        self.refuses_work = False
        self._running: set[Cancellation] = set()

    @property
    def running(self) -> int:
        """The number of requests that are being answered."""
        return len(self._running)

    def begin(self) -> None:
        """Announce that the server is about to stop: /readyz answers 503."""
        self.is_stopping = True

    def refuse_work(self) -> None:
        """Refuse new requests from now on."""
        self.is_stopping = self.refuses_work = True

    def interrupt_all(self) -> None:
        """Stop every running request with a proper error for its client."""
        for request in tuple(self._running):
            request.stop(ServerShuttingDown())

    def enter(self, request: Cancellation) -> None:
        """Register a request, or raise ServerShuttingDown."""
        if self.refuses_work:
            raise ServerShuttingDown(retry_after=1)
        self._running.add(request)

    def leave(self, request: Cancellation) -> None:
        """Remove a request."""
        self._running.discard(request)
