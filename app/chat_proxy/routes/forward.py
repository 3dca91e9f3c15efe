"""The other paths of OpenAI's API that pass: forwarded byte for byte, by an allow-list.

vLLM serves more than this, and guards little of it by its key.
"""

import re

from chat_proxy.errors import InvalidEncoding, InvalidJson, InvalidJsonRoot
from chat_proxy.proxy.forwarding.send import pass_on
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.services import Services
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.routes.chat import refuse_forms
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import request_in

POST = frozenset({"POST"})
GET = frozenset({"GET"})
STORED = frozenset({"GET", "POST", "DELETE"})

# A path that ends in a slash stands for everything below it.
ALLOWED = {
    "/v1/models": GET,
    "/v1/models/": GET,
    "/v1/completions": POST,
    "/v1/embeddings": POST,
    "/v1/moderations": POST,
    "/v1/rerank": POST,
    "/v1/score": POST,
    "/v1/responses": POST,
    "/v1/responses/": STORED,
    "/v1/messages": POST,
    "/v1/messages/": POST,
    "/v1/audio/": POST,
    "/v1/images/": POST,
}
# OpenAI's clients write the slash in a model's name as an escape.
_PLAIN_PATH = re.compile(rb"((/|%2[Ff])[A-Za-z0-9_:@.~+-]*[A-Za-z0-9_:@~+-])+")


class Forward:
    """Forwards one allowed path."""

    def __init__(self, route: str, methods: frozenset[str], services: Services) -> None:
        self.route = route
        self.methods = methods
        self._services = services

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Forward one request."""
        services = self._services
        if context.record.method == "POST":
            refuse_forms_but_uploads(context)
        context.record.phase = "body"
        body = await client.read_body(services.policy.max_body_bytes, services.admission)
        context.record.bytes_in = len(body)
        path = self._path(client).removeprefix("/v1")
        card = await self._card(body)
        await client.watch(context, pass_on(path, body, card, context, services))

    def _path(self, client: AsgiClient) -> str:
        """Return the path as it was written, which is plain below an allowed one."""
        is_below = self.route.endswith("/")
        return client.scope["raw_path"].decode("ascii") if is_below else self.route

    async def _card(self, body: bytes) -> ModelCard:
        """Return the model's card where models have upstreams of their own."""
        registry = self._services.registry
        if not registry.has_own_upstreams or not body:
            return registry.find("")
        try:
            return registry.find((await request_in(body, self._services.limits)).model)
        except (InvalidJson, InvalidJsonRoot, InvalidEncoding):
            return registry.find("")


def refuse_forms_but_uploads(context: RequestContext) -> None:
    """Refuse browsers' forms, except where OpenAI's API itself wants files as a form."""
    if not context.record.route.startswith(("/v1/audio/", "/v1/images/")):
        refuse_forms(context.values)


def forwards(services: Services) -> dict[str, Forward]:
    """Return the allowed paths with what answers them."""
    return {path: Forward(path, methods, services) for path, methods in ALLOWED.items()}


def is_plain(raw_path: bytes) -> bool:
    """Tell whether a path means the same to everybody: no dots, empty parts, other escapes."""
    return b".." not in raw_path and _PLAIN_PATH.fullmatch(raw_path) is not None
