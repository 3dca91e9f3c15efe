"""Leases: who does a piece of work that one of several processes is to do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, runtime_checkable

RENEWALS_PER_LEASE = 3


class Lease(Protocol):
    """The right to do a piece of work for a while; it ends by itself if its holder dies."""

    async def renew(self) -> bool:
        """Begin the while anew; return False only if somebody else holds the lease by now."""
        ...

    async def release(self) -> None:
        """Let others have it; a lease that somebody else holds by now stays theirs."""
        ...


@runtime_checkable
class Leases(Protocol):
    """Gives out leases; a fault gives one too, since work done twice is better than none."""

    async def lease(self, key: bytes, seconds: float) -> Lease | None:
        """Return the lease of this key, or None while somebody else holds it."""
        ...


class OwnLease:
    """The lease of a process that shares its work with no other."""

    async def renew(self) -> bool:
        """Hold on."""
        return True

    async def release(self) -> None:
        """Let go of nothing."""


@asynccontextmanager
async def renewed(lease: Lease, seconds: float) -> AsyncIterator[None]:
    """Renew a lease of this length until the block ends, then release it."""
    renewing = asyncio.create_task(_renew_until_lost(lease, seconds / RENEWALS_PER_LEASE))
    try:
        yield
    finally:
        renewing.cancel()
        await lease.release()


async def _renew_until_lost(lease: Lease, every_seconds: float) -> None:
    is_held = True
    while is_held:
        await asyncio.sleep(every_seconds)
        is_held = await lease.renew()
