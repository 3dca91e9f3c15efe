"""Health, readiness and metrics endpoints for operators."""

import asyncio
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from chat_proxy.proxy.lifecycle.admission import Drain
from chat_proxy.proxy.summaries.storm_guard import StormGuard
from chat_proxy.routes.front.identity import AdminGate
from chat_proxy.store.factory import FailOpenStore
from chat_proxy.telemetry.loop_watchdog import LoopWatchdog
from chat_proxy.telemetry.metrics import CONTENT_TYPE, Metrics
from chat_proxy.upstream.breaker import Breakers


@dataclass(frozen=True, slots=True)
class Operations:
    """The state of the process that operators see."""

    metrics: Metrics
    drain: Drain
    store: FailOpenStore
    loop_watchdog: LoopWatchdog
    breakers: Breakers
    storm_guard: StormGuard

    def refresh_gauges(self) -> None:
        """Update the metrics that no request updates."""
        metrics = self.metrics
        metrics.open_breakers.set(self.breakers.open_count())
        metrics.in_flight.set(self.drain.running)
        metrics.tasks.set(len(asyncio.all_tasks()))
        metrics.store_degraded.set(self.store.is_degraded)
        metrics.store_log_bytes.set(self.store.log_bytes)
        metrics.flush()


def ops_routes(operations: Operations, admin: AdminGate, *, metrics_enabled: bool) -> APIRouter:
    """Return the operators' endpoints."""
    router = APIRouter(tags=["operations"])

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz")
    async def health() -> dict[str, str]:
        """Report that the process answers."""
        return {"status": "ok"}

    @router.head("/livez", include_in_schema=False)
    @router.get("/livez")
    async def live(response: Response) -> dict[str, str]:
        """Report whether the event loop runs: 503 if it was blocked for the last ten seconds."""
        if operations.loop_watchdog.is_stuck:
            response.status_code = 503
            return {"status": "stuck"}
        return {"status": "ok"}

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz")
    async def ready(response: Response) -> dict[str, str]:
        """Report whether new requests are accepted: 503 as soon as the server is stopping.

        A store that is away, damaged or full fails no request: it is reported, with status 200.
        """
        if operations.drain.is_stopping:
            response.status_code = 503
            return {"status": "stopping"}
        if operations.store.is_degraded:
            return {"status": "ready", "degraded": "store"}
        return {"status": "ready"}

    if metrics_enabled:

        @router.get("/metrics")
        async def metrics(request: Request) -> Response:
            """Return all metrics in Prometheus' text format."""
            admin.check(request.headers.raw)
            operations.refresh_gauges()
            return Response(operations.metrics.render(), media_type=CONTENT_TYPE)

    return router
