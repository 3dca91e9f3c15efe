"""What operators and their machines ask: health, readiness, metrics."""

import asyncio

from fastapi import APIRouter, Request, Response

from chat_proxy.proxy.services import Services
from chat_proxy.routes.front.identity import AdminGate
from chat_proxy.telemetry.metrics import CONTENT_TYPE


def ops_routes(services: Services, admin: AdminGate, *, metrics_enabled: bool) -> APIRouter:
    """Return the operators' endpoints."""
    router = APIRouter(tags=["operations"])

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz")
    async def health() -> dict[str, str]:
        """Tell that the process answers."""
        return {"status": "ok"}

    @router.head("/livez", include_in_schema=False)
    @router.get("/livez")
    async def live(response: Response) -> dict[str, str]:
        """Tell whether the event loop moves: 503 if it stood still for ten seconds until now."""
        if services.loop_watchdog.is_stuck:
            response.status_code = 503
            return {"status": "stuck"}
        return {"status": "ok"}

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz")
    async def ready(response: Response) -> dict[str, str]:
        """Tell whether new requests are welcome: 503 as soon as the server is stopping.

        A store that is away, damaged or full costs no request anything: it is told, and no more.
        """
        if services.drain.is_stopping:
            response.status_code = 503
            return {"status": "stopping"}
        if services.store.is_degraded:
            return {"status": "ready", "degraded": "store"}
        return {"status": "ready"}

    if metrics_enabled:

        @router.get("/metrics")
        async def metrics(request: Request) -> Response:
            """Return all figures in Prometheus' text form."""
            admin.check(request.headers.raw)
            refresh(services)
            return Response(services.metrics.render(), media_type=CONTENT_TYPE)

    return router


def refresh(services: Services) -> None:
    """Bring the figures up to date, also those that no request reports."""
    services.metrics.open_breakers.set(services.upstream.breakers.open_ones())
    services.metrics.tasks.set(len(asyncio.all_tasks()))
    services.metrics.store_degraded.set(services.store.is_degraded)
    services.metrics.store_log_bytes.set(services.store.log_bytes)
    services.metrics.flush()
