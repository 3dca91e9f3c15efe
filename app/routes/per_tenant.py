"""How many requests of one tenant are answered at once, so that one flood does not drown others."""

from collections import Counter

from app.errors import TooManyRequests
from app.proxy.visit import Visit
from app.routes.client import Client
from app.routes.front import Endpoint


class TenantRequests:
    """The requests that are being answered, by tenant."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: Counter[str] = Counter()

    def enter(self, tenant: str) -> None:
        """Count one more, or raise TooManyRequests."""
        if self._running[tenant] >= self._most:
            raise TooManyRequests(retry_after=1)
        self._running[tenant] += 1

    def leave(self, tenant: str) -> None:
        """Count one less, and forget a tenant who has none."""
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]


class PerTenant:
    """An endpoint that answers a tenant only so many requests at once."""

    def __init__(self, endpoint: Endpoint, requests: TenantRequests) -> None:
        self.route = endpoint.route
        self.methods = endpoint.methods
        self._endpoint = endpoint
        self._requests = requests

    async def __call__(self, visit: Visit, client: Client) -> None:
        """Answer, or refuse before the body is read."""
        tenant = visit.caller.tenant
        self._requests.enter(tenant)
        try:
            await self._endpoint(visit, client)
        finally:
            self._requests.leave(tenant)
