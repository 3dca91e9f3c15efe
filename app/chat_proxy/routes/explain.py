"""`POST /v1/chat/explain`: what the proxy sees in a request, without sending it anywhere."""

import json

from chat_proxy.proxy.reporting.explain import explain
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.services import Services
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import request_in


class Explain:
    """Explains chat requests."""

    route = "/v1/chat/explain"
    methods = frozenset({"POST"})

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Explain one request to whoever may send it."""
        services, record = self._services, context.record
        record.phase = "body"
        body = await client.read_body(services.policy.max_body_bytes, services.admission)
        record.bytes_in = len(body)
        request = await request_in(body, services.limits)
        record.model = request.model
        # Not by orjson: names may hold half an emoji.
        told = json.dumps(await explain(request, context.caller, services)).encode()
        record.status = 200
        record.bytes_out = len(told)
        headers = [(b"content-type", b"application/json"), *record.response_headers()]
        await client.answer(200, headers, told)
