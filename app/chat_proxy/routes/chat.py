"""`POST /v1/chat/completions`: read and parse the request, then take it through its journey."""

from chat_proxy.proxy.chat import answer
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.services import Services
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import RequestReader


class ChatCompletions:
    """Answers chat requests."""

    route = "/v1/chat/completions"
    methods = frozenset({"POST"})

    def __init__(self, reader: RequestReader, services: Services) -> None:
        self._reader = reader
        self._services = services

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Answer one request."""
        services, record = self._services, context.record
        asked = context.values.get(b"x-chat-proxy-mode", b"")
        record.set_mode(effective_mode(services.policy.mode, asked))
        request = await self._reader.read_chat(context, client)
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
