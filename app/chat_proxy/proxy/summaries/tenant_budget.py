"""What a tenant's summaries may cost: tokens an hour, running off like water."""

import time
from collections.abc import Callable

from chat_proxy.caches import RecentCache

HOUR_SECONDS = 3600.0
REMEMBERED_TENANTS = 10_000


class TenantBudget:
    """Counts the tokens of side-queries by tenant; 0 tokens an hour means no limit."""

    def __init__(self, tokens_per_hour: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens_per_hour = tokens_per_hour
        self._clock = clock
        self._spent: RecentCache[str, tuple[float, float]] = RecentCache(REMEMBERED_TENANTS)

    def allows(self, tenant: str) -> bool:
        """Tell whether the tenant has anything left; the last side-query may go over it."""
        return not self._tokens_per_hour or self.spent(tenant) < self._tokens_per_hour

    def spend(self, tenant: str, tokens: int) -> None:
        """Count tokens as spent, or take back what was counted too much."""
        if self._tokens_per_hour:
            self._spent.put(tenant, (max(0.0, self.spent(tenant) + tokens), self._clock()))

    def spent(self, tenant: str) -> float:
        """Return what still counts: in an hour the whole budget runs off."""
        tokens, at = self._spent.get(tenant) or (0.0, 0.0)
        run_off = (self._clock() - at) * self._tokens_per_hour / HOUR_SECONDS
        return max(0.0, tokens - run_off)
