"""Leases: the exclusive right of one process to do a piece of work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, runtime_checkable

RENEWALS_PER_LEASE = 3


class Lease(Protocol):
    """The exclusive right to do a piece of work; it expires if its holder dies."""

    async def renew(self) -> bool:
        """Extend the lease; return False only if another process holds it now."""
        ...

    async def release(self) -> None:
        """Release the lease; a lease that another process holds now is left unchanged."""
        ...


@runtime_checkable
class Leases(Protocol):
    """Grants leases; a fault grants one too, since doing work twice is better than not at all."""

    async def lease(self, key: bytes, seconds: float) -> Lease | None:
        """Return the lease for this key, or None while another process holds it."""
        ...

    async def any_held(self, keys: list[bytes]) -> bool:
        """Return whether a process holds the lease for one of these keys; a fault is a no."""
        ...


class OwnLease:
    """The lease of a process that shares its work with no other process."""

    async def renew(self) -> bool:
        """Do nothing: the lease never expires."""
        return True

    async def release(self) -> None:
        """Do nothing: there is nothing to release."""


@asynccontextmanager
async def renewed(lease: Lease, seconds: float) -> AsyncIterator[None]:
    """Renew a lease of this duration until the block ends, then release it."""
    renewing = asyncio.create_task(_renew_until_lost(lease, seconds / RENEWALS_PER_LEASE))
    try:
        yield
    finally:
        renewing.cancel()
        await lease.release()


async def _renew_until_lost(lease: Lease, interval_seconds: float) -> None:
    is_held = True
    while is_held:
        await asyncio.sleep(interval_seconds)
        is_held = await lease.renew()
