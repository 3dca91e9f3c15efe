"""The token budget of each tenant's summaries: a leaky bucket, in tokens per hour."""

import time
from collections.abc import Callable

from chat_proxy.caches import LruCache

HOUR_SECONDS = 3600.0
REMEMBERED_TENANTS = 10_000


class TenantBudget:
    """Count the tokens of side-queries by tenant; 0 tokens per hour means no limit."""

    def __init__(self, tokens_per_hour: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens_per_hour = tokens_per_hour
        self._clock = clock
        self._spent: LruCache[str, tuple[float, float]] = LruCache(REMEMBERED_TENANTS)

    def allows(self, tenant: str) -> bool:
        """Return whether the tenant has budget left; the last side-query may exceed it."""
        return not self._tokens_per_hour or self.spent(tenant) < self._tokens_per_hour

    def take(self, tenant: str, tokens: int) -> bool:
        """Count tokens as spent if the tenant has budget left; return whether it had."""
        if not self.allows(tenant):
            return False
        self.spend(tenant, tokens)
        return True

    def spend(self, tenant: str, tokens: int) -> None:
        """Count tokens as spent; a negative number corrects an estimate that was too high."""
        if self._tokens_per_hour:
            self._spent.put(tenant, (max(0.0, self.spent(tenant) + tokens), self._clock()))

    def spent(self, tenant: str) -> float:
        """Return the tokens that still count as spent; a whole budget expires in an hour."""
        tokens, at = self._spent.get(tenant) or (0.0, 0.0)
        expired = (self._clock() - at) * self._tokens_per_hour / HOUR_SECONDS
        return max(0.0, tokens - expired)
