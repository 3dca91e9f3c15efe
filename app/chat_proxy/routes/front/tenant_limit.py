"""A limit on one tenant's concurrent requests, so that a flood does not starve other tenants."""

from collections import Counter

from chat_proxy.errors import TooManyRequests
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.front.front_door import Endpoint


class TenantLimit:
    """Count running requests, keyed by tenant; a tenant without any has no entry.

    A tenant can only fill its own count.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: Counter[str] = Counter()

    def enter(self, tenant: str) -> None:
        """Count a request as running, or raise TooManyRequests."""
        if self._running[tenant] >= self._most:
            raise TooManyRequests(retry_after=1)
        self._running[tenant] += 1

    def leave(self, tenant: str) -> None:
        """Count a request as finished; remove a tenant without running requests."""
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]


class LimitedEndpoint:
    """An endpoint with a limit on concurrent requests per tenant."""

    def __init__(self, endpoint: Endpoint, requests: TenantLimit) -> None:
        self.route = endpoint.route
        self.methods = endpoint.methods
        self._endpoint = endpoint
        self._requests = requests

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Answer the request, or refuse it before its body is read."""
        tenant = context.caller.tenant
        self._requests.enter(tenant)
        try:
            await self._endpoint(context, client)
        finally:
            self._requests.leave(tenant)
