"""A limit on concurrent jobs that serves waiting tenants in rotation."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class FairSlots:
    """A semaphore that serves its waiting tenants round-robin, not first come, first served.

    Waiters are queued by tenant, so that a tenant with many jobs does not delay the others. With
    `each`, a tenant holds at most so many slots, and another finds one free at once.
    """

    def __init__(self, count: int, each: int | None = None) -> None:
        self._free = count
        self._each = each or count
        self._held: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, tenant: Hashable) -> AsyncIterator[None]:
        """Hold a slot for the duration of the block."""
        await self._acquire(tenant)
        try:
            yield
        finally:
            self._release(tenant)

    async def _acquire(self, tenant: Hashable) -> None:
        if self._may_take(tenant):
            self._take(tenant)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # Cancelled after a slot was granted: pass it on to the next waiter.
            if not waiter.cancelled():
                self._release(tenant)
            raise

    def _may_take(self, tenant: Hashable) -> bool:
        return self._free > 0 and self._held[tenant] < self._each

    def _take(self, tenant: Hashable) -> None:
        self._free -= 1
        self._held[tenant] += 1

    def _release(self, tenant: Hashable) -> None:
        """Pass the slot to the next tenant in the rotation that may hold one, or mark it free."""
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        for waiting in tuple(self._waiting):
            if self._may_take(waiting):
                self._serve(waiting)

    def _serve(self, tenant: Hashable) -> None:
        """Grant a slot to the tenant's first waiter that still waits; the tenant goes last."""
        queue = self._waiting.pop(tenant)
        while queue:
            waiter = queue.popleft()
            if not waiter.done():
                self._take(tenant)
                waiter.set_result(None)
                break
        if queue:
            self._waiting[tenant] = queue
