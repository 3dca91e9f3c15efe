"""`POST /v1/chat/explain`: what the proxy would do to a request, without sending it."""

import json

from chat_proxy.proxy.contracts.explained import explain_request
from chat_proxy.proxy.contracts.services import ContractServices
from chat_proxy.proxy.recall.restore import Restoring
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoutes
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
        services: ContractServices,
        restoring: Restoring,
    ) -> None:
        self._reader = reader
        self._model_routes = model_routes
        self._services = services
        self._restoring = restoring

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Explain one request to the tenant that sends it."""
        record, services = context.record, self._services
        request = await self._reader.read_any(context, client)
        record.model = request.model
        route = self._model_routes.of(request.model)
        record.upstream = route.base_url
        request = await self._restoring.restored(request, route, context.caller.tenant)
        explanation = await explain_request(
            request, route, context.caller, context.headers, services
        )
        # Not by orjson: names may hold lone surrogates.
        body = json.dumps(explanation).encode()
        await context.answer_json(body)
