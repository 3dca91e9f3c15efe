"""`GET /v1/offload/{id}`: a text that was cut from a conversation, for the tenant it belongs to."""

import re

from app.errors import NotFound
from app.proxy.services import Services
from app.proxy.visit import Visit
from app.routes.client import Client

_ID = re.compile(r"[0-9a-f]{32}")


class Offload:
    """Returns offloaded texts; an id of nobody, of somebody else, or no id: all the same 404."""

    route = "/v1/offload/"
    methods = frozenset({"GET", "HEAD"})

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, visit: Visit, client: Client) -> None:
        """Return one text."""
        name = client.scope["path"].removeprefix(self.route)
        if not _ID.fullmatch(name):
            raise NotFound
        text = await self._services.offloads.find(visit.caller.tenant, name)
        if text is None:
            raise NotFound
        body, record = text.encode(), visit.record
        record.status = 200
        record.bytes_out = len(body)
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"private, no-store"),
            *record.response_headers(),
        ]
        await client.answer(200, headers, body)
