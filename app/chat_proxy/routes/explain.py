"""`POST /v1/chat/explain`: what the proxy would do to a request, without sending it."""

import json

from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.reporting.explain import explain
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoutes
from chat_proxy.proxy.session.request import counted_request
from chat_proxy.proxy.sizing.measure import Sizing
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import RequestReader


class Explain:
    """Explains chat requests."""

    route = "/v1/chat/explain"
    methods = frozenset({"POST"})

    def __init__(
        self,
        reader: RequestReader,
        model_routes: ModelRoutes,
        sizing: Sizing,
        services: CompactionServices,
    ) -> None:
        self._reader = reader
        self._model_routes = model_routes
        self._sizing = sizing
        self._services = services

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Explain one request to the tenant that sends it."""
        record = context.record
        request = await self._reader.read_any(context, client)
        record.model = request.model
        compaction = await counted_request(
            request,
            self._model_routes.of(request.model),
            context.caller,
            record.request_id,
            self._sizing,
            is_dry_run=True,
        )
        # Not by orjson: names may hold lone surrogates.
        body = json.dumps(await explain(compaction, self._services)).encode()
        await context.answer_json(body)
