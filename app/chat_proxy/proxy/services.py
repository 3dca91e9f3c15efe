"""The parts that requests are served with, made once at start and closed once at the end."""

from dataclasses import dataclass

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.contracts.services import ContractServices
from chat_proxy.proxy.forwarding.send import Forwarding
from chat_proxy.proxy.lifecycle.admission import Admission, Drain
from chat_proxy.proxy.recall.recall import RecallServices
from chat_proxy.proxy.reporting.chat_log import ChatLog
from chat_proxy.proxy.routing.destinations import Destinations
from chat_proxy.proxy.routing.model_policy import ModelPolicies
from chat_proxy.proxy.routing.model_route import ModelRoutes
from chat_proxy.proxy.routing.request_policy import RequestPolicy
from chat_proxy.proxy.sizing.engine_counts import EngineCounts
from chat_proxy.proxy.sizing.measure import Sizing
from chat_proxy.registry.registry import ModelRegistry
from chat_proxy.store.archive.archive import Archive
from chat_proxy.store.factory import FailOpenStore
from chat_proxy.telemetry.loop_watchdog import LoopWatchdog
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.telemetry.tracing.tracing import Tracing
from chat_proxy.upstream.discovery import Windows


@dataclass(frozen=True, slots=True)
class Services:
    """All parts, by the step that uses them; only `server.py` and `proxy/chat.py` take it whole."""

    policy: RequestPolicy
    limits: RequestLimits
    body_prefixes: BodyPrefixes
    admission: Admission
    drain: Drain

    registry: ModelRegistry
    destinations: Destinations
    policies: ModelPolicies
    model_routes: ModelRoutes
    windows: Windows

    sizing: Sizing
    engine_counts: EngineCounts
    compaction: CompactionServices
    contracts: ContractServices
    forwarding: Forwarding
    recall: RecallServices

    store: FailOpenStore
    archive: Archive | None
    chat_log: ChatLog
    metrics: Metrics
    loop_watchdog: LoopWatchdog
    tracing: Tracing

    async def open(self) -> None:
        """Open what needs the event loop, and load the tokenizer before the first request.

        Where nothing is counted it is not loaded: it takes a third of a second and 50 MB.
        """
        self.loop_watchdog.open()
        await self.tracing.open()
        self.forwarding.upstream.open()
        await self.store.open()
        if self.archive is not None:
            await self.archive.open()
        if self.policies.count_anything:
            await self.sizing.tokenizers.loaded(self.policies.default_encoding)

    async def close(self) -> None:
        """Close everything, in the opposite order."""
        await self.chat_log.close()
        await self.compaction.summaries.jobs.close()
        await self.engine_counts.close()
        await self.sizing.tokenizers.close()
        await self.sizing.calibrations.close()
        await self.sizing.learned_windows.close()
        await self.compaction.last_seen.close()
        await self.compaction.checkpoints.close()
        await self.compaction.originals.close()
        await self.compaction.images.close()
        if self.archive is not None:
            await self.archive.close()
        await self.store.close()
        await self.windows.close()
        await self.forwarding.upstream.close()
        self.forwarding.deadlines.close()
        await self.tracing.close()
        self.loop_watchdog.close()
