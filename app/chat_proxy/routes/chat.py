"""`POST /v1/chat/completions`: read and parse the request, then take it through its journey."""

from collections.abc import Mapping

from chat_proxy.errors import UnsupportedMediaType
from chat_proxy.proxy.chat import answer
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.services import Services
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import RequestReader

_FORM_TYPES = (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data")


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
        refuse_forms(context.values)
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


def refuse_forms(values: Mapping[bytes, bytes]) -> None:
    """Refuse what any web page can make a browser send: forms, or no content type at all."""
    if not values.get(b"origin"):
        return
    content_type = values.get(b"content-type", b"").strip().lower()
    if not content_type or content_type.startswith(_FORM_TYPES):
        raise UnsupportedMediaType
