"""Admission: a limit on the bytes that requests hold at once, with a share for each tenant."""

from chat_proxy.errors import Overloaded, ServerShuttingDown
from chat_proxy.proxy.lifecycle.cancellation import Cancellation

FREE_SHARE = 4


class Admission:
    """The bytes that running requests hold: limited in all, and shared fairly between tenants.

    Keyed by tenant; one without running requests has no entry. A tenant may hold up to `FREE_SHARE`
    times what is free after it, so a single one gets four fifths, two get four ninths each, and a
    newcomer always finds some memory free.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # No request counts for more, so that even the largest is accepted when it is alone.
        self._most = max_bytes * FREE_SHARE // (FREE_SHARE + 1)
        self._tenants: dict[str, int] = {}
        self.held_bytes = 0

    def hold(self, tenant: str, held: int, size: int) -> int:
        """Let a request hold so many bytes instead of those it held; raise Overloaded if it cannot.

        Returns what is held from now on, which is to be given back.
        """
        size = min(size, self._most)
        more = size - held
        of_tenant = self._tenants.get(tenant, 0) + more
        if more > 0 and of_tenant > FREE_SHARE * (self._max_bytes - self.held_bytes - more):
            raise Overloaded(retry_after=1)
        self.held_bytes += more
        if of_tenant:
            self._tenants[tenant] = of_tenant
        else:
            self._tenants.pop(tenant, None)
        return size


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
