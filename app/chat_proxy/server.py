"""The wiring: settings become values, values become parts, parts become the app."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route

from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.chat.body.request import RequestLimits
from chat_proxy.config.environment import BadConfiguration, overridden
from chat_proxy.config.policies import model_policies, plain, plain_or_none, request_policy
from chat_proxy.config.settings import Settings
from chat_proxy.proxy.lifecycle.admission import Admission
from chat_proxy.proxy.lifecycle.deadlines import Deadlines
from chat_proxy.proxy.lifecycle.drain import Drain
from chat_proxy.proxy.reporting.chat_log import ChatLog
from chat_proxy.proxy.routing.destinations import Destinations
from chat_proxy.proxy.routing.model_route import ModelRoutes
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.checkpoints import Checkpoints
from chat_proxy.proxy.session.last_seen import LastSeen
from chat_proxy.proxy.session.offloads import Offloads
from chat_proxy.proxy.session.originals import Originals
from chat_proxy.proxy.sizing.calibrations import Calibrations
from chat_proxy.proxy.sizing.learned_windows import LearnedWindows
from chat_proxy.proxy.sizing.model_sizing import ModelSizings
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.proxy.summaries.jobs import SummaryJobs
from chat_proxy.proxy.summaries.tenant_budget import TenantBudget
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.registry.registry import BadRegistry, ModelRegistry, read_registry
from chat_proxy.routes.chat import ChatCompletions
from chat_proxy.routes.compact import Compact
from chat_proxy.routes.dashboard.dashboard import Dashboard
from chat_proxy.routes.explain import Explain
from chat_proxy.routes.forward import forwards
from chat_proxy.routes.front.error_responses import ERROR_HANDLERS
from chat_proxy.routes.front.front_door import Endpoint, FrontDoor
from chat_proxy.routes.front.identity import AdminGate, Gate
from chat_proxy.routes.front.tenant_limit import LimitedEndpoint, TenantLimit
from chat_proxy.routes.offload import Offload
from chat_proxy.routes.ops import ops_routes, refresh
from chat_proxy.store.archive.archive import Archive
from chat_proxy.store.base import StoreUnavailable
from chat_proxy.store.factory import FailOpenStore, store_of
from chat_proxy.telemetry.logs import ERROR, WARNING, log, log_exception
from chat_proxy.telemetry.loop_watchdog import LoopWatchdog
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.tokens.images.tokens import is_image_family
from chat_proxy.tokens.tiktoken_counter import ENCODINGS
from chat_proxy.upstream.client import Upstream, UpstreamPolicy
from chat_proxy.upstream.discovery import Windows


def create_app(
    settings: Settings,
    variables: Mapping[str, str] | None = None,
    *,
    multiprocess_dir: str | None = None,
) -> FrontDoor:
    """Return the proxy as an ASGI app; `variables` holds the models' own keys."""
    services = make_services(settings, variables or {}, multiprocess_dir)
    gate = Gate(plain(key) for key in settings.auth.keys)
    admin = AdminGate(plain_or_none(settings.auth.admin_key))
    chat = ChatCompletions(services)
    app = FastAPI(
        title="chat-proxy",
        lifespan=lifespan_of(services),
        docs_url="/docs" if settings.server.docs_enabled else None,
        openapi_url="/openapi.json" if settings.server.docs_enabled else None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=ERROR_HANDLERS,
    )
    app.include_router(ops_routes(services, admin, metrics_enabled=settings.metrics.enabled))
    if settings.dashboard.enabled:
        dashboard = Dashboard(services, admin, has_key=settings.auth.admin_key is not None)
        app.router.routes.append(Route("/dashboard{rest:path}", dashboard))
    compact = Compact(services)
    explain = Explain(services)
    offload = Offload(services)
    endpoints: dict[str, Endpoint] = {
        chat.route: chat,
        compact.route: compact,
        explain.route: explain,
        offload.route: offload,
        **forwards(services),
    }
    if most := settings.limits.tenant_in_flight:
        requests = TenantLimit(most)
        endpoints = {path: LimitedEndpoint(it, requests) for path, it in endpoints.items()}
    return FrontDoor(app, endpoints, gate, services)


def make_services(
    settings: Settings, variables: Mapping[str, str], multiprocess_dir: str | None = None
) -> Services:
    """Return the journey's parts, not opened yet; raise BadConfiguration if they cannot be."""
    registry = read_models(settings)
    upstream = Upstream(
        UpstreamPolicy(
            usable_ca_file(settings.upstream.ca_file),
            settings.upstream.connect_timeout_seconds,
            settings.upstream.keep_alive_seconds,
            settings.upstream.breaker_failures,
            settings.upstream.breaker_seconds,
        )
    )
    metrics = Metrics(multiprocess_dir)
    store = make_store(settings, metrics)
    checkpoints = Checkpoints(store)
    offloads = Offloads(store, settings.archive.retention_days * 24 * 3600)
    archive = make_archive(settings, metrics)
    places = destinations(settings, registry, variables)
    policies = model_policies(settings, registry)
    windows = Windows(upstream, settings.upstream.discovery_seconds)
    learned_windows = LearnedWindows(store)
    return Services(
        policy=request_policy(settings),
        limits=RequestLimits(
            settings.limits.max_depth,
            settings.limits.max_elements,
            settings.limits.max_messages,
            settings.limits.max_choices,
        ),
        body_prefixes=BodyPrefixes(),
        destinations=places,
        registry=registry,
        model_routes=ModelRoutes(registry, policies, places),
        upstream=upstream,
        windows=windows,
        metrics=metrics,
        admission=Admission(settings.limits.max_inflight_bytes),
        drain=Drain(),
        deadlines=Deadlines(),
        store=store,
        policies=policies,
        tokenizers=Tokenizers(),
        calibrations=Calibrations(store),
        checkpoints=checkpoints,
        last_seen=LastSeen(store),
        offloads=offloads,
        archive=archive,
        originals=Originals(
            offloads,
            archive,
            settings.archive.dir,
            mentions_paths=settings.archive.mention_paths,
        ),
        learned_windows=learned_windows,
        model_sizings=ModelSizings(windows, learned_windows, policies),
        summaries=SummaryJobs(checkpoints, store, metrics, settings.summary.concurrency),
        summary_tokens=TenantBudget(settings.summary.tenant_tokens_per_hour),
        chat_log=ChatLog(
            store,
            enabled=settings.dashboard.enabled,
            show_text=settings.dashboard.show_text,
        ),
        loop_watchdog=LoopWatchdog(metrics, ends_process=multiprocess_dir is not None),
    )


def make_store(settings: Settings, metrics: Metrics) -> FailOpenStore:
    """Return the store, not opened yet, or raise BadConfiguration if the setting names none."""
    notice = store_notice(metrics)
    secret = plain_or_none(settings.store.secret)
    try:
        store = store_of(settings.store.url, secret, notice, settings.store.max_bytes)
    except StoreUnavailable as error:
        raise BadConfiguration(f"CHAT_PROXY_STORE_URL: {error}") from None
    return FailOpenStore(store, required=settings.store.required, notice=notice, secret=secret)


def make_archive(settings: Settings, metrics: Metrics) -> Archive | None:
    """Return the archive of originals, if one is wanted."""
    if not settings.archive.enabled:
        return None
    wanted = settings.archive
    return Archive(wanted.dir, wanted.retention_days, wanted.max_bytes, store_notice(metrics))


def store_notice(metrics: Metrics) -> Callable[[str, str], None]:
    """Return what counts and tells the faults of the store and the archive."""

    def notice(operation: str, kind: str) -> None:
        metrics.store_errors.labels(operation, kind).inc()
        log("the store did not do as asked", WARNING, operation=operation, kind=kind)

    return notice


def read_models(settings: Settings) -> ModelRegistry:
    """Return the model registry, or raise BadConfiguration with its one line."""
    try:
        registry = read_registry(settings.registry.file)
    except BadRegistry as error:
        raise BadConfiguration(str(error)) from None
    for card in registry.cards:
        try:
            overridden(settings, card.overrides)
        except BadConfiguration as error:
            where = f"{settings.registry.file}: model {card.name!r}: overrides"
            raise BadConfiguration(f"{where}: {error}") from None
        warn_of_unknown_words(card)
    return registry


def warn_of_unknown_words(card: ModelCard) -> None:
    """Say that a card's encoding or image family is left aside: the model's name tells then."""
    if card.encoding and card.encoding not in ENCODINGS:
        log(
            "a model's encoding is not known here",
            WARNING,
            model=card.name,
            encoding=card.encoding,
            known=sorted(ENCODINGS),
        )
    if card.image_family and not is_image_family(card.image_family):
        log(
            "a model's image family is not known here",
            WARNING,
            model=card.name,
            image_family=card.image_family,
        )


def usable_ca_file(path: Path | None) -> Path | None:
    """Return the file with the certificate authorities, or raise BadConfiguration."""
    try:
        if path:
            ssl.create_default_context(cafile=path)
    except OSError as error:
        reason = "no PEM certificates in it" if isinstance(error, ssl.SSLError) else error.strerror
        raise BadConfiguration(f"CHAT_PROXY_UPSTREAM_CA_FILE={str(path)!r}: {reason}") from None
    return path


def destinations(
    settings: Settings, registry: ModelRegistry, variables: Mapping[str, str]
) -> Destinations:
    """Return where requests go; a model's key that is named but not set is a mistake."""
    keys = {}
    for card in registry.cards:
        if card.api_key_env:
            if not variables.get(card.api_key_env):
                raise BadConfiguration(
                    f"{settings.registry.file}: model {card.name!r} takes its key from "
                    f"{card.api_key_env}, which is not set"
                )
            keys[card.api_key_env] = variables[card.api_key_env]
    return Destinations(settings.upstream.base_url, plain_or_none(settings.upstream.api_key), keys)


def refuse_to_give_keys_away(settings: Settings, services: Services) -> None:
    """Raise BadConfiguration when anyone who reaches the port could spend our upstream key."""
    holds_key = bool(
        settings.upstream.api_key or settings.summary.api_key or services.destinations.model_keys
    )
    is_open = not is_loopback(settings.server.host) and not settings.auth.keys
    if holds_key and is_open and not settings.auth.allow_anonymous:
        raise BadConfiguration(
            f"CHAT_PROXY_SERVER_HOST={settings.server.host!r}: an upstream key is set and anyone "
            "could use it; set CHAT_PROXY_AUTH_KEYS, or CHAT_PROXY_AUTH_ALLOW_ANONYMOUS=true if "
            "that is meant"
        )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches the address; a name could be anything."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def lifespan_of(services: Services) -> Any:
    """Return the lifespan that opens and closes the services.

    What it yields reaches the server that runs the app: the drain to stop it by, the metrics to
    count what never becomes a request, the outbox that both sides write by.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, object]]:
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
        counting = asyncio.create_task(count_regularly(services))
        try:
            yield {
                "drain": services.drain,
                "metrics": services.metrics,
                "outbox": services.upstream.write_batch,
            }
        finally:
            counting.cancel()
            await services.close()

    return lifespan


async def count_regularly(services: Services, pause_seconds: float = 1) -> None:
    """Keep the figures fresh, so that another worker's /metrics has them too."""
    while True:
        await asyncio.sleep(pause_seconds)
        try:
            refresh(services)
        except Exception as error:  # noqa: BLE001 - figures may be missing, counting goes on
            log_exception("metrics could not be counted", error)
