"""A limit on concurrent jobs that serves waiting tenants in rotation."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class FairSlots:
    """A semaphore that serves its waiting tenants round-robin, not first come, first served.

    Waiters are queued by tenant, so that a tenant with many jobs does not delay the others.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, tenant: Hashable) -> AsyncIterator[None]:
        """Hold a slot for the duration of the block."""
        await self._acquire(tenant)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, tenant: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # Cancelled after a slot was granted: pass it on to the next waiter.
            if not waiter.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        """Pass the slot to the next tenant in the rotation, or mark it free."""
        while self._waiting:
            tenant, queue = self._waiting.popitem(last=False)
            waiter = queue.popleft()
            if queue:
                self._waiting[tenant] = queue
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
