"""`POST /v1/chat/completions`: read, parse once, and off on its journey."""

from collections.abc import Mapping

from chat_proxy.chat.body.request import read_request
from chat_proxy.errors import UnsupportedMediaType
from chat_proxy.proxy.chat import answer
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.services import Services
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import is_read_at_once, request_in

_FORM_TYPES = (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data")


class ChatCompletions:
    """Answers chat requests."""

    route = "/v1/chat/completions"
    methods = frozenset({"POST"})

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Answer one request."""
        services, record = self._services, context.record
        asked = context.values.get(b"x-chat-proxy-mode", b"")
        record.settle_mode(effective_mode(services.policy.mode, asked))
        refuse_forms(context.values)
        record.phase = "body"
        most = services.policy.max_body_bytes
        body = client.take_body(most, services.admission)
        if body is None:
            body = await client.read_body(most, services.admission)
        record.bytes_in = len(body)
        if is_read_at_once(body):
            request = read_request(body, services.limits, services.body_prefixes)
        else:
            request = await request_in(body, services.limits, services.body_prefixes)
        record.repeats_keys = request.body is not body
        record.has_lone_surrogates = request.has_lone_surrogates
        to = services.model_routes.of(request.model)
        record.settle_mode(effective_mode(to.policy.mode, asked))
        await client.watch(context, answer(request, to, context, services))


def effective_mode(configured: str, asked: bytes) -> str:
    """Return the mode, which a request may lower but not raise."""
    if not asked:
        return configured
    wish = asked.strip().lower()
    if wish == b"off" or (wish == b"observe" and configured == "on"):
        return wish.decode("ascii")
    return configured


def refuse_forms(values: Mapping[bytes, bytes]) -> None:
    """Refuse what any web page could make a visitor's browser send: forms, or no type at all."""
    if not values.get(b"origin"):
        return
    content_type = values.get(b"content-type", b"").strip().lower()
    if not content_type or content_type.startswith(_FORM_TYPES):
        raise UnsupportedMediaType
