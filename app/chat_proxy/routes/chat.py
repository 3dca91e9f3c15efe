"""`POST /v1/chat/completions`, `/v1/responses` and `/v1/messages`: the journey of a request."""

from chat_proxy.proxy.chat import answer
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.services import Services
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import RequestReader
from chat_proxy.wires.wire import Wire


class Chat:
    """Answers the chat requests of one wire."""

    methods = frozenset({"POST"})

    def __init__(self, wire: Wire, reader: RequestReader, services: Services) -> None:
        self.route = f"/v1{wire.path}"
        self._wire = wire
        self._reader = reader
        self._services = services

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Answer one request."""
        services, record = self._services, context.record
        asked = context.values.get(b"x-chat-proxy-mode", b"")
        record.set_mode(effective_mode(services.policy.mode, asked))
        request = await self._reader.read_chat(context, client, self._wire)
        route = services.model_routes.of(request.model)
        record.set_mode(effective_mode(route.policy.mode, asked))
        await client.watch(context, answer(request, route, context, services))


def effective_mode(configured: str, asked: bytes) -> str:
    """Return the mode, which a request may lower but not raise."""
    if not asked:
        return configured
    mode = asked.strip().lower()
    if mode == b"off" or (mode == b"observe" and configured == "on"):
        return mode.decode("ascii")
    return configured
