"""So many at once; tenants who wait take turns, so that one who asks for a lot delays no other."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """A semaphore whose queue goes round the tenants instead of first come, first served."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, tenant: str) -> AsyncIterator[None]:
        """Hold a slot for the time of the block."""
        await self._acquire(tenant)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, tenant: str) -> None:
        if self._free:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # Given a slot and cancelled in the same moment: it goes to the next.
            if not waiter.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        """Give the slot to the tenant whose turn it is, or keep it for whoever comes."""
        while self._waiting:
            tenant, queue = self._waiting.popitem(last=False)
            waiter = queue.popleft()
            if queue:
                self._waiting[tenant] = queue
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
