"""Stopping gracefully: who is still being answered, and whether new work is taken."""

from chat_proxy.errors import ServerShuttingDown
from chat_proxy.proxy.lifecycle.cancellation import Cancellation


class Drain:
    """Knows the running exchanges and the server's wish to stop."""

    def __init__(self) -> None:
        self.is_stopping = False
        self.refuses_work = False
        self._running: set[Cancellation] = set()

    def begin(self) -> None:
        """Say that the server is about to stop; /readyz tells load balancers."""
        self.is_stopping = True

    def refuse_work(self) -> None:
        """Turn new requests away from now on."""
        self.is_stopping = self.refuses_work = True

    def interrupt_all(self) -> None:
        """End every running exchange with an error its client understands."""
        for exchange in tuple(self._running):
            exchange.stop(ServerShuttingDown())

    def enter(self, exchange: Cancellation) -> None:
        """Take an exchange in, or refuse it."""
        if self.refuses_work:
            raise ServerShuttingDown(retry_after=1)
        self._running.add(exchange)

    def leave(self, exchange: Cancellation) -> None:
        """Forget an exchange."""
        self._running.discard(exchange)
