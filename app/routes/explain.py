"""`POST /v1/chat/explain`: what the proxy sees in a request, without sending it anywhere."""

import json

from app.proxy.explain import explain
from app.proxy.reading import request_in
from app.proxy.services import Services
from app.proxy.visit import Visit
from app.routes.client import Client


class Explain:
    """Explains chat requests."""

    route = "/v1/chat/explain"
    methods = frozenset({"POST"})

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, visit: Visit, client: Client) -> None:
        """Explain one request to whoever may send it."""
        services, record = self._services, visit.record
        record.phase = "body"
        body = await client.read_body(services.policy.max_body_bytes, services.admission)
        record.bytes_in = len(body)
        request = await request_in(body, services.limits)
        record.model = request.model
        # Not by orjson: names may hold half an emoji.
        told = json.dumps(await explain(request, visit.caller, services)).encode()
        record.status = 200
        record.bytes_out = len(told)
        headers = [(b"content-type", b"application/json"), *record.response_headers()]
        await client.answer(200, headers, told)
