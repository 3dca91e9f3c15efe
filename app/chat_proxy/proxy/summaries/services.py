"""The services that summaries are written with."""

from dataclasses import dataclass

from chat_proxy.proxy.summaries.client_limits import ClientLimits
from chat_proxy.proxy.summaries.jobs import SummaryJobs
from chat_proxy.proxy.summaries.storm_guard import StormGuard
from chat_proxy.proxy.summaries.tenant_budget import TenantBudget
from chat_proxy.proxy.summaries.writing.ability import SummaryAbility
from chat_proxy.proxy.summaries.writing.ride_shares import RideShares
from chat_proxy.registry.registry import ModelRegistry
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.upstream.client import Upstream
from chat_proxy.upstream.discovery import Windows


@dataclass(frozen=True, slots=True)
class SummaryServices:
    """The jobs, budgets and connections that summaries are written with."""

    jobs: SummaryJobs
    tenant_budget: TenantBudget
    ability: SummaryAbility
    storm_guard: StormGuard
    client_limits: ClientLimits
    ride_shares: RideShares
    upstream: Upstream
    windows: Windows
    registry: ModelRegistry
    metrics: Metrics
