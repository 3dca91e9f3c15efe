"""Make the services from the settings: settings become values, values become parts."""

import ssl
from collections.abc import Mapping
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.config.environment import environment_with, overridden
from chat_proxy.config.policies import model_policies, plain_or_none, request_policy
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.contracts.services import ContractServices
from chat_proxy.proxy.forwarding.send import Forwarding
from chat_proxy.proxy.lifecycle.admission import Admission, Drain
from chat_proxy.proxy.lifecycle.cancellation import Deadlines
from chat_proxy.proxy.lifecycle.fault_reports import fault_reporter, report_breaker
from chat_proxy.proxy.recall.exchanges import Exchanges
from chat_proxy.proxy.recall.recall import RecallServices
from chat_proxy.proxy.reporting.chat_log import ChatLog
from chat_proxy.proxy.routing.destinations import Destinations
from chat_proxy.proxy.routing.model_label import model_label
from chat_proxy.proxy.routing.model_policy import ModelPolicies
from chat_proxy.proxy.routing.model_route import ModelRoutes
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.images.image_services import make_image_services
from chat_proxy.proxy.session.offloads import Offloads
from chat_proxy.proxy.session.originals import Originals
from chat_proxy.proxy.session.recognition.checkpoints import Checkpoints
from chat_proxy.proxy.session.recognition.last_seen import LastSeen
from chat_proxy.proxy.sizing.calibrations import Calibrations
from chat_proxy.proxy.sizing.engine_counts import EngineCounts
from chat_proxy.proxy.sizing.learned_windows import LearnedWindows
from chat_proxy.proxy.sizing.measure import Sizing
from chat_proxy.proxy.sizing.model_sizing import ModelSizings
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.proxy.summaries.client_limits import ClientLimits
from chat_proxy.proxy.summaries.jobs import SummaryJobs
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.proxy.summaries.storm_guard import StormGuard
from chat_proxy.proxy.summaries.tenant_budget import TenantBudget
from chat_proxy.proxy.summaries.writing.ability import SummaryAbility
from chat_proxy.proxy.summaries.writing.ride_shares import RideShares
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.registry.registry import BadRegistry, ModelRegistry, read_registry
from chat_proxy.store.archive.archive import Archive
from chat_proxy.store.base import Capacity, StoreUnavailable
from chat_proxy.store.factory import FailOpenStore, store_of
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.telemetry.loop_watchdog import LoopWatchdog
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.telemetry.tracing.tracing import Tracing
from chat_proxy.tokens.images.tokens import is_image_family
from chat_proxy.tokens.tiktoken_counter import ENCODINGS
from chat_proxy.upstream.client import Upstream, UpstreamPolicy
from chat_proxy.upstream.discovery import Windows


def make_services(
    settings: Settings, variables: Mapping[str, str], multiprocess_dir: str | None = None
) -> Services:
    """Return the services, not opened yet; raise BadConfiguration if the settings are wrong."""
    registry = read_models(settings)
    destinations = make_destinations(settings, registry, variables)
    policies = model_policies(settings, registry)
    metrics = Metrics(multiprocess_dir)
    upstream = make_upstream(settings)
    windows = Windows(upstream, settings.upstream.discovery_seconds)
    metrics.model_label = partial(model_label, registry, windows)
    store = make_store(settings, metrics)
    archive = make_archive(settings, metrics)
    sizing = make_sizing(store, windows, policies)
    policy = request_policy(settings)
    compaction = make_compaction(
        settings, store, archive, sizing.tokenizers, (upstream, windows, registry, metrics)
    )
    forwarding = Forwarding(upstream, Deadlines(), policy, metrics)
    return Services(
        policy=policy,
        limits=request_limits(settings),
        body_prefixes=BodyPrefixes(),
        admission=Admission(settings.limits.max_inflight_bytes),
        drain=Drain(),
        registry=registry,
        destinations=destinations,
        policies=policies,
        model_routes=ModelRoutes(registry, policies, destinations),
        windows=windows,
        sizing=sizing,
        engine_counts=EngineCounts(upstream, sizing, enabled=settings.tokens.ask_engine),
        compaction=compaction,
        contracts=ContractServices(sizing, compaction, forwarding, request_limits(settings)),
        forwarding=forwarding,
        recall=RecallServices(Exchanges(store), compaction.offloads, sizing.tokenizers, metrics),
        store=store,
        archive=archive,
        chat_log=ChatLog(
            store, enabled=settings.dashboard.enabled, show_text=settings.dashboard.show_text
        ),
        metrics=metrics,
        loop_watchdog=LoopWatchdog(metrics, ends_process=multiprocess_dir is not None),
        tracing=Tracing(variables, environment_with, metrics),
    )


def request_limits(settings: Settings) -> RequestLimits:
    """Return the limits of a request's JSON."""
    limits = settings.limits
    return RequestLimits(
        limits.max_depth, limits.max_elements, limits.max_messages, limits.max_choices
    )


def make_upstream(settings: Settings) -> Upstream:
    """Return the client for upstreams, not opened yet."""
    upstream = settings.upstream
    return Upstream(
        UpstreamPolicy(
            usable_ca_file(upstream.ca_file),
            upstream.connect_timeout_seconds,
            upstream.keep_alive_seconds,
            upstream.breaker_failures,
            upstream.breaker_seconds,
        ),
        report_breaker,
    )


def make_sizing(store: FailOpenStore, windows: Windows, policies: ModelPolicies) -> Sizing:
    """Return what requests are measured with."""
    learned_windows = LearnedWindows(store)
    return Sizing(
        Tokenizers(),
        Calibrations(store),
        ModelSizings(windows, learned_windows, policies),
        learned_windows,
    )


def make_compaction(
    settings: Settings,
    store: FailOpenStore,
    archive: Archive | None,
    tokenizers: Tokenizers,
    connections: tuple[Upstream, Windows, ModelRegistry, Metrics],
) -> CompactionServices:
    """Return what requests are compacted with."""
    upstream, windows, registry, metrics = connections
    kept = settings.archive
    offloads = Offloads(store, kept.retention_days * 24 * 3600, enabled=kept.enabled)
    originals = Originals(offloads, archive, kept.dir, mentions_paths=kept.mention_paths)
    checkpoints = Checkpoints(store)
    summaries = SummaryServices(
        SummaryJobs(checkpoints, store, metrics, settings.summary.concurrency),
        TenantBudget(settings.summary.tenant_tokens_per_hour),
        SummaryAbility(),
        StormGuard(metrics, settings.summary.max_per_request),
        ClientLimits(),
        RideShares(metrics),
        upstream,
        windows,
        registry,
        metrics,
    )
    return CompactionServices(
        checkpoints,
        LastSeen(store),
        offloads,
        originals,
        tokenizers,
        summaries,
        metrics,
        make_image_services(store, upstream, metrics, summaries.tenant_budget.take),
    )


def make_store(settings: Settings, metrics: Metrics) -> FailOpenStore:
    """Return the store, not opened yet; raise BadConfiguration if the setting names none."""
    on_fault = fault_reporter(metrics, settings.store.url)
    secret = plain_or_none(settings.store.secret)
    try:
        store = store_of(
            settings.store.url,
            secret,
            on_fault,
            Capacity(settings.store.max_bytes, settings.store.tenant_max_bytes),
        )
    except StoreUnavailable as error:
        raise BadConfiguration(f"CHAT_PROXY_STORE_URL: {error}") from None
    return FailOpenStore(store, required=settings.store.required, notice=on_fault, secret=secret)


def make_archive(settings: Settings, metrics: Metrics) -> Archive | None:
    """Return the archive of originals, None if they are not written as files."""
    archive = settings.archive
    if not (archive.enabled and archive.files):
        return None
    return Archive(
        archive.dir,
        archive.retention_days,
        Capacity(archive.max_bytes, archive.tenant_max_bytes),
        fault_reporter(metrics, str(archive.dir)),
    )


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
        warn_of_unknown_names(card)
    return registry


def warn_of_unknown_names(card: ModelCard) -> None:
    """Log that a card's encoding or image family is ignored: the model's name decides then."""
    if card.encoding and card.encoding not in ENCODINGS:
        log(
            "a model's encoding is not known here",
            WARNING,
            model=card.name,
            encoding=card.encoding,
            known=sorted(ENCODINGS),
        )
    if card.image_family and not is_image_family(card.image_family):
        names = {"model": card.name, "image_family": card.image_family}
        log("a model's image family is not known here", WARNING, **names)


def usable_ca_file(path: Path | None) -> Path | None:
    """Return the file with the certificate authorities, or raise BadConfiguration."""
    try:
        if path:
            ssl.create_default_context(cafile=path)
    except OSError as error:
        reason = "no PEM certificates in it" if isinstance(error, ssl.SSLError) else error.strerror
        raise BadConfiguration(f"CHAT_PROXY_UPSTREAM_CA_FILE={str(path)!r}: {reason}") from None
    return path


def make_destinations(
    settings: Settings, registry: ModelRegistry, variables: Mapping[str, str]
) -> Destinations:
    """Return where requests are sent; raise BadConfiguration for a model key that is unset."""
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


def refuse_to_expose_keys(
    settings: Settings, services: Services, *, is_embedded: bool = False
) -> None:
    """Raise BadConfiguration when anyone who reaches the port could spend an upstream key.

    Under another server (embedded) the address is not known, so it counts as open.
    """
    is_open = (is_embedded or not is_loopback(settings.server.host)) and not settings.auth.keys
    if holds_key(settings, services) and is_open and not settings.auth.allow_anonymous:
        host = f"CHAT_PROXY_SERVER_HOST={settings.server.host!r}"
        where = "served by another server" if is_embedded else host
        raise BadConfiguration(
            f"{where}: an upstream key is set and anyone "
            "could use it; set CHAT_PROXY_AUTH_KEYS, or CHAT_PROXY_AUTH_ALLOW_ANONYMOUS=true if "
            "that is meant"
        )


def is_open_to_pages(settings: Settings, services: Services) -> bool:
    """Return whether web pages could spend a key through a browser on this machine."""
    needs_no_key = not settings.auth.keys and not settings.auth.allow_anonymous
    return holds_key(settings, services) and is_loopback(settings.server.host) and needs_no_key


def holds_key(settings: Settings, services: Services) -> bool:
    """Return whether the proxy has a key for any upstream."""
    return bool(
        settings.upstream.api_key or settings.summary.api_key or services.destinations.model_keys
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the address; a name may be any address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
