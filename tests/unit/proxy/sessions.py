"""Compaction sessions over real services, a store in memory and a model that writes summaries."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from chat_proxy.chat.body.request import read_request
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.compacting.open_session import open_session
from chat_proxy.proxy.compacting.trim import trim
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.request import CompactionRequest, counted_request
from chat_proxy.proxy.session.session import CompactionSession
from chat_proxy.proxy.summaries.draft import SummaryDraft
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.upstream.client import Upstream
from chat_proxy.wiring import make_services
from tests.journeys.summaries.in_process import Writer, with_parts
from tests.support.live import settings
from tests.unit.chat.shapes import Fields

WINDOW = 8_000


@dataclass
class Proxy:
    """The services of a proxy, and the model behind it."""

    services: Services
    writer: Writer

    @property
    def summaries(self) -> SummaryServices:
        return self.services.compaction.summaries

    async def request(
        self, messages: Sequence[Fields], tenant: str = "t", **fields: Any
    ) -> CompactionRequest:
        """Return a counted request with these messages."""
        document = {"model": "fake", "messages": messages, **fields}
        request = read_request(json.dumps(document).encode(), self.services.limits)
        route = self.services.model_routes.of("fake")
        caller = Caller(tenant, [])
        return await counted_request(request, route, caller, "r1", self.services.sizing)

    async def session(self, messages: Sequence[Fields], **fields: Any) -> CompactionSession:
        """Return the session of a request with these messages."""
        request = await self.request(messages, **fields)
        trimmed = await trim(request, self.services.compaction)
        return await open_session(request, trimmed, self.services.compaction)

    async def draft(
        self, messages: Sequence[Fields], checkpoint: Checkpoint | None = None, **more: Any
    ) -> SummaryDraft:
        """Return the draft of a summary for a conversation with a checkpoint applied."""
        session = await self.session(messages)
        return SummaryDraft(session, await session.apply(checkpoint), **more)


@asynccontextmanager
async def proxy_with(writer: Writer | None = None, **sections: Any) -> AsyncIterator[Proxy]:
    """Open the services of a proxy with a window of 8,000 tokens, unless another is given."""
    writer = writer or Writer()
    budget = {"context_window": WINDOW, **sections.pop("budget", {})}
    services = make_services(settings(budget=budget, **sections), {})
    upstream = cast("Upstream", writer)
    services.windows._upstream = upstream
    services = with_parts(services, upstream, services.sizing.tokenizers)
    await services.store.open()
    await services.sizing.tokenizers.loaded("o200k_base")
    try:
        yield Proxy(services, writer)
    finally:
        await services.compaction.summaries.jobs.close()
        await services.compaction.last_seen.close()
        await services.compaction.checkpoints.close()
        await services.store.close()
        await services.windows.close()
        await services.sizing.tokenizers.close()
