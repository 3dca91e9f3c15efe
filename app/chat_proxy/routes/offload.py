"""`GET /v1/offload/{id}`: a text that was cut from a conversation, for its tenant only."""

import re

from chat_proxy.errors import NotFound
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.session.offloads import Offloads
from chat_proxy.routes.front.asgi_client import AsgiClient

_ID = re.compile(r"[0-9a-f]{32}")


class Offload:
    """Returns offloaded texts; unknown ids, other tenants' ids and malformed ids all get 404."""

    route = "/v1/offload/"
    methods = frozenset({"GET", "HEAD"})

    def __init__(self, offloads: Offloads) -> None:
        self._offloads = offloads

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Return one text."""
        name = client.path.removeprefix(self.route)
        if not _ID.fullmatch(name):
            raise NotFound
        text = await self._offloads.find(context.caller.tenant, name)
        if text is None:
            raise NotFound
        body, record = text.encode(), context.record
        record.status = 200
        record.bytes_out = len(body)
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"private, no-store"),
            *record.response_headers(),
        ]
        await client.answer(200, headers, body)
