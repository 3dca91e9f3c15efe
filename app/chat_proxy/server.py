"""Create the app: a FastAPI instance whose outermost middleware is the front door of `/v1`.

`uvicorn --factory chat_proxy.server:create_app` serves it with the settings of the environment;
`chat-proxy serve` adds its own HTTP protocol, with deadlines and limits, and a graceful shutdown.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp

from chat_proxy.config.environment import read_settings, read_variables, wants_colours
from chat_proxy.config.policies import plain, plain_or_none
from chat_proxy.config.settings import Settings
from chat_proxy.proxy.recall.restore import Restoring
from chat_proxy.proxy.services import Services
from chat_proxy.routes.chat import Chat
from chat_proxy.routes.compaction.compact import Compact
from chat_proxy.routes.compaction.explain import Explain
from chat_proxy.routes.compaction.responses_compact import ResponsesCompact
from chat_proxy.routes.count_tokens import CountTokens
from chat_proxy.routes.dashboard.dashboard import Dashboard
from chat_proxy.routes.dashboard.snapshot import Snapshots
from chat_proxy.routes.forward import forwards
from chat_proxy.routes.front.browser_guard import BrowserGuard
from chat_proxy.routes.front.error_responses import ERROR_HANDLERS
from chat_proxy.routes.front.front_door import Endpoint, FrontDoor
from chat_proxy.routes.front.identity import AdminGate, Gate
from chat_proxy.routes.front.tenant_limit import LimitedEndpoint, TenantLimit
from chat_proxy.routes.history import ChatHistory
from chat_proxy.routes.offload import Offload
from chat_proxy.routes.ops import Operations, ops_routes
from chat_proxy.routes.read_request import RequestReader
from chat_proxy.store.base import StoreUnavailable
from chat_proxy.telemetry.logs import ERROR, WARNING, configure_logging, log, log_exception
from chat_proxy.wires.recognise import WIRES
from chat_proxy.wiring import is_open_to_pages, make_services, refuse_to_expose_keys


def create_app(
    settings: Settings | None = None,
    variables: Mapping[str, str] | None = None,
    *,
    multiprocess_dir: str | None = None,
) -> FastAPI:
    """Return the proxy as an app; `variables` holds the models' own keys.

    Without settings they are read from the environment and `.env`, and logging is configured. The
    services are at `app.state.services`.
    """
    is_embedded = settings is None
    if settings is None:
        settings, variables = read_settings(), read_variables()
        configure_logging(settings.log.level, settings.log.format, colours=wants_colours(variables))
    services = make_services(settings, variables or {}, multiprocess_dir)
    if is_embedded:
        refuse_to_expose_keys(settings, services, is_embedded=True)
    operations = operations_of(services)
    endpoints = endpoints_of(settings, services)
    app = ProxyApp(
        partial(
            FrontDoor,
            endpoints=endpoints,
            gate=Gate(plain(key) for key in settings.auth.keys),
            guard=BrowserGuard(
                settings.server.cors_origins, checks_names=is_open_to_pages(settings, services)
            ),
            services=services,
        ),
        title="chat-proxy",
        lifespan=lifespan_of(services, operations),
        docs_url="/docs" if settings.server.docs_enabled else None,
        openapi_url="/openapi.json" if settings.server.docs_enabled else None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=ERROR_HANDLERS,
    )
    app.state.services = services
    app.state.endpoint_paths = frozenset(endpoints)
    pages = {"dashboard": settings.dashboard.enabled, "metrics": settings.metrics.enabled}
    app.state.switched_off = frozenset(name for name, is_on in pages.items() if not is_on)
    add_operator_routes(app, settings, services, operations)
    return app


class ProxyApp(FastAPI):
    """A FastAPI app with a front door: only middleware that users add themselves is outside of it.

    Starlette's error middleware would wrap every piece of a stream in one more coroutine.
    """

    def __init__(self, front_door: Callable[..., ASGIApp], **options: Any) -> None:
        super().__init__(**options)
        self._front_door = front_door

    def build_middleware_stack(self) -> ASGIApp:
        """Return the stack: users' middleware, the front door, Starlette's own, the routes."""
        added, self.user_middleware = self.user_middleware, []
        # A shortcut past ASGI's messages would pass users' middleware by as well.
        app = self._front_door(super().build_middleware_stack(), uses_shortcuts=not added)
        self.user_middleware = added
        for middleware, args, kwargs in reversed(added):
            app = middleware(app, *args, **kwargs)
        return app


def endpoints_of(settings: Settings, services: Services) -> dict[str, Endpoint]:
    """Return the endpoints of `/v1` by their paths."""
    reader = RequestReader(
        services.policy.max_body_bytes,
        services.admission,
        services.limits,
        services.body_prefixes,
    )
    restoring = Restoring(services.recall.exchanges, services.limits)
    parts = (reader, services.model_routes, services.sizing, services.compaction)
    endpoints: dict[str, Endpoint] = {
        **{f"/v1{wire.path}": Chat(wire, reader, services) for wire in WIRES},
        CountTokens.route: CountTokens(*parts, services.contracts, restoring),
        Compact.route: Compact(*parts),
        Explain.route: Explain(reader, services.model_routes, services.contracts, restoring),
        ResponsesCompact.route: ResponsesCompact(reader, services.model_routes, services.contracts),
        Offload.route: Offload(services.compaction.offloads),
        ChatHistory.route: ChatHistory(services.compaction.offloads),
        **forwards(reader, services.model_routes, services.forwarding),
    }
    if not settings.limits.tenant_in_flight:
        return endpoints
    limit = TenantLimit(settings.limits.tenant_in_flight)
    return {path: LimitedEndpoint(endpoint, limit) for path, endpoint in endpoints.items()}


def operations_of(services: Services) -> Operations:
    """Return the state of the process that operators see."""
    return Operations(
        services.metrics,
        services.drain,
        services.store,
        services.loop_watchdog,
        services.forwarding.upstream.breakers,
        services.compaction.summaries.storm_guard,
    )


def add_operator_routes(
    app: FastAPI, settings: Settings, services: Services, operations: Operations
) -> None:
    """Add health, metrics and the dashboard."""
    admin = AdminGate(plain_or_none(settings.auth.admin_key))
    app.include_router(ops_routes(operations, admin, metrics_enabled=settings.metrics.enabled))
    if settings.dashboard.enabled:
        snapshots = Snapshots(services.chat_log, operations, services.policy.mode)
        dashboard = Dashboard(snapshots, admin, has_key=settings.auth.admin_key is not None)
        app.router.routes.append(Route("/dashboard{rest:path}", dashboard))


def lifespan_of(
    services: Services, operations: Operations
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return the lifespan that opens and closes the services."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await services.open()
        except StoreUnavailable as error:
            log("the store that is required cannot be used", ERROR, reason=str(error))
            raise
        except Exception as error:
            log_exception("the proxy could not start", error)
            raise
        if because := services.store.replaced_because:
            log("memory serves in place of the store", WARNING, reason=because)
        refreshing = asyncio.create_task(refresh_regularly(operations))
        try:
            yield
        finally:
            refreshing.cancel()
            await services.close()

    return lifespan


async def refresh_regularly(operations: Operations, pause_seconds: float = 1) -> None:
    """Keep the gauges fresh, so that another worker's /metrics has them too."""
    while True:
        await asyncio.sleep(pause_seconds)
        try:
            operations.refresh_gauges()
        except Exception as error:  # noqa: BLE001 - metrics fail open: the next second tries again
            log_exception("metrics could not be refreshed", error)
