"""What every exchange needs, made once at start and closed once at the end."""

from dataclasses import dataclass

from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.chat.body.request import RequestLimits
from chat_proxy.proxy.lifecycle.admission import Admission
from chat_proxy.proxy.lifecycle.deadlines import Deadlines
from chat_proxy.proxy.lifecycle.drain import Drain
from chat_proxy.proxy.reporting.chat_log import ChatLog
from chat_proxy.proxy.routing.destinations import Destinations
from chat_proxy.proxy.routing.model_policy import ModelPolicies
from chat_proxy.proxy.routing.model_route import ModelRoutes
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
from chat_proxy.registry.registry import ModelRegistry
from chat_proxy.store.archive.archive import Archive
from chat_proxy.store.factory import FailOpenStore
from chat_proxy.telemetry.loop_watchdog import LoopWatchdog
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.upstream.client import Upstream
from chat_proxy.upstream.discovery import Windows


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How long and how large an exchange may be."""

    mode: str
    max_body_bytes: int
    max_answer_bytes: int
    first_byte_seconds: float
    idle_seconds: float
    total_seconds: float
    client_stall_seconds: float
    ping_seconds: float
    answers_commands: bool
    """Whether the proxy answers commands in the conversation itself."""


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that the journey uses."""

    policy: RequestPolicy
    limits: RequestLimits
    body_prefixes: BodyPrefixes
    destinations: Destinations
    registry: ModelRegistry
    model_routes: ModelRoutes
    upstream: Upstream
    windows: Windows
    metrics: Metrics
    admission: Admission
    drain: Drain
    deadlines: Deadlines
    store: FailOpenStore
    policies: ModelPolicies
    tokenizers: Tokenizers
    calibrations: Calibrations
    checkpoints: Checkpoints
    last_seen: LastSeen
    offloads: Offloads
    archive: Archive | None
    originals: Originals
    summaries: SummaryJobs
    summary_tokens: TenantBudget
    learned_windows: LearnedWindows
    model_sizings: ModelSizings
    chat_log: ChatLog
    loop_watchdog: LoopWatchdog

    async def open(self) -> None:
        """Open what needs the event loop; the tokenizer before the first request, as it stalls.

        Where nothing is counted it is not loaded: it takes a third of a second and 50 MB.
        """
        self.loop_watchdog.open()
        self.upstream.open()
        await self.store.open()
        if self.archive is not None:
            await self.archive.open()
        self.calibrations.open()
        self.chat_log.open()
        if self.policies.count_anything:
            await self.tokenizers.loaded(self.policies.default_encoding)

    async def close(self) -> None:
        """Close it again, in the opposite order."""
        await self.chat_log.close()
        await self.summaries.close()
        await self.tokenizers.close()
        await self.calibrations.close()
        await self.learned_windows.close()
        await self.last_seen.close()
        await self.checkpoints.close()
        await self.originals.close()
        if self.archive is not None:
            await self.archive.close()
        await self.store.close()
        await self.windows.close()
        await self.upstream.close()
        self.deadlines.close()
        self.loop_watchdog.close()
