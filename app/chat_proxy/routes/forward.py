"""Paths that are forwarded byte for byte: an allow-list.

vLLM serves more than these, and guards little of it by its API key.
"""

import re

from chat_proxy.errors import InvalidEncoding, InvalidJson, InvalidJsonRoot
from chat_proxy.proxy.forwarding.send import Forwarding, forward
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoute, ModelRoutes
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import RequestReader

POST = frozenset({"POST"})
GET = frozenset({"GET"})
STORED = frozenset({"GET", "POST", "DELETE"})

# A path that ends in a slash means everything below it.
ALLOWED = {
    "/v1/models": GET,
    "/v1/models/": GET,
    "/v1/completions": POST,
    "/v1/embeddings": POST,
    "/v1/moderations": POST,
    "/v1/rerank": POST,
    "/v1/score": POST,
    "/v1/responses/": STORED,
    "/v1/messages/": POST,
    "/v1/audio/": POST,
    "/v1/images/": POST,
}
# OpenAI's clients write the slash in a model's name as an escape.
_PLAIN_PATH = re.compile(rb"((/|%2[Ff])[A-Za-z0-9_:@.~+-]*[A-Za-z0-9_:@~+-])+")


class Forward:
    """Forwards one allowed path."""

    def __init__(
        self,
        route: str,
        methods: frozenset[str],
        reader: RequestReader,
        model_routes: ModelRoutes,
        forwarding: Forwarding,
    ) -> None:
        self.route = route
        self.methods = methods
        self._reader = reader
        self._model_routes = model_routes
        self._forwarding = forwarding

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Forward one request."""
        body = await self._reader.read_body(context, client)
        path = self._path(client).removeprefix("/v1")
        route = await self._model_route(body, context, client)
        await client.watch(context, forward(path, body, route, context, self._forwarding))

    def _path(self, client: AsgiClient) -> str:
        """Return the path as the client wrote it; below an allowed path it is plain."""
        is_below = self.route.endswith("/")
        return client.raw_path.decode("ascii") if is_below else self.route

    async def _model_route(
        self, body: bytes, context: RequestContext, client: AsgiClient
    ) -> ModelRoute:
        """Return the model's route if models have their own upstreams, else the common one."""
        if not self._model_routes.have_own_upstreams or not body:
            return self._model_routes.of("")
        try:
            return self._model_routes.of(await self._reader.model_in(body, context, client))
        except (InvalidJson, InvalidJsonRoot, InvalidEncoding):
            return self._model_routes.of("")


def forwards(
    reader: RequestReader, model_routes: ModelRoutes, forwarding: Forwarding
) -> dict[str, Forward]:
    """Return the endpoints of the allowed paths."""
    return {
        path: Forward(path, methods, reader, model_routes, forwarding)
        for path, methods in ALLOWED.items()
    }


def is_plain(raw_path: bytes) -> bool:
    """Return whether a path has one meaning only: no dots, no empty parts, no other escapes."""
    return b".." not in raw_path and _PLAIN_PATH.fullmatch(raw_path) is not None
