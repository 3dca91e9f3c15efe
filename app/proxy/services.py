"""What every exchange needs, made once at start and closed once at the end."""

from dataclasses import dataclass

from app.chat.beginnings import Beginnings
from app.chat.request import RequestLimits
from app.proxy.addressee import Addressees
from app.proxy.admission import Admission
from app.proxy.calibrations import Calibrations
from app.proxy.checkpoints import Checkpoints
from app.proxy.destinations import Destinations
from app.proxy.drain import Drain
from app.proxy.exchanges import Exchanges
from app.proxy.interrupt import Deadlines
from app.proxy.keeping import Keeping
from app.proxy.last_seen import LastSeen
from app.proxy.learned_windows import LearnedWindows
from app.proxy.model_policy import ModelPolicies
from app.proxy.offloads import Offloads
from app.proxy.summaries import Summaries
from app.proxy.tenant_budget import TenantBudget
from app.proxy.tokenizers import Tokenizers
from app.proxy.yardsticks import Yardsticks
from app.registry.registry import ModelRegistry
from app.store.archive import Archive
from app.store.open import ForgivingStore
from app.telemetry.heartbeat import Heartbeat
from app.telemetry.metrics import Metrics
from app.upstream.client import Upstream
from app.upstream.discovery import Windows


@dataclass(frozen=True, slots=True)
class ExchangePolicy:
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

    policy: ExchangePolicy
    limits: RequestLimits
    beginnings: Beginnings
    destinations: Destinations
    registry: ModelRegistry
    addressees: Addressees
    upstream: Upstream
    windows: Windows
    metrics: Metrics
    admission: Admission
    drain: Drain
    deadlines: Deadlines
    store: ForgivingStore
    policies: ModelPolicies
    tokenizers: Tokenizers
    calibrations: Calibrations
    checkpoints: Checkpoints
    last_seen: LastSeen
    offloads: Offloads
    archive: Archive | None
    keeping: Keeping
    summaries: Summaries
    summary_tokens: TenantBudget
    learned_windows: LearnedWindows
    yardsticks: Yardsticks
    exchanges: Exchanges
    heartbeat: Heartbeat

    async def open(self) -> None:
        """Open what needs the event loop; the tokenizer before the first request, as it stalls.

        Where nothing is counted it is not loaded: it takes a third of a second and 50 MB.
        """
        self.heartbeat.open()
        self.upstream.open()
        await self.store.open()
        if self.archive is not None:
            await self.archive.open()
        self.calibrations.open()
        self.exchanges.open()
        if self.policies.count_anything:
            await self.tokenizers.loaded(self.policies.default_encoding)

    async def close(self) -> None:
        """Close it again, in the opposite order."""
        await self.exchanges.close()
        await self.summaries.close()
        await self.tokenizers.close()
        await self.calibrations.close()
        await self.learned_windows.close()
        await self.last_seen.close()
        await self.checkpoints.close()
        await self.keeping.close()
        if self.archive is not None:
            await self.archive.close()
        await self.store.close()
        await self.windows.close()
        await self.upstream.close()
        self.deadlines.close()
        self.heartbeat.close()
