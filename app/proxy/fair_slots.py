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
        await self._take(tenant)
        try:
            yield
        finally:
            self._give_on()

    async def _take(self, tenant: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # Given a slot and cancelled in the same moment: it goes to the next.
            if not turn.cancelled():
                self._give_on()
            raise

    def _give_on(self) -> None:
        """Give the slot to the tenant whose turn it is, or keep it for whoever comes."""
        while self._waiting:
            tenant, line = self._waiting.popitem(last=False)
            turn = line.popleft()
            if line:
                self._waiting[tenant] = line
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
