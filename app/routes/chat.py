"""`POST /v1/chat/completions`: read, parse once, and off on its journey."""

from app.errors import UnsupportedMediaType
from app.proxy.exchange import answer
from app.proxy.reading import request_in
from app.proxy.services import Services
from app.proxy.visit import Visit
from app.routes.client import Client
from app.upstream.headers import RawHeaders, value_of

_FORM_TYPES = (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data")


class ChatCompletions:
    """Answers chat requests."""

    route = "/v1/chat/completions"
    methods = frozenset({"POST"})

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, visit: Visit, client: Client) -> None:
        """Answer one request."""
        services, record = self._services, visit.record
        asked = asked_mode(visit.headers)
        record.settle_mode(effective_mode(services.policy.mode, asked))
        refuse_forms(visit.headers)
        record.phase = "body"
        body = await client.read_body(services.policy.max_body_bytes, services.admission)
        record.bytes_in = len(body)
        request = await request_in(body, services.limits, services.beginnings)
        record.repeats_keys = request.body is not body
        record.has_lone_surrogates = request.has_lone_surrogates
        to = services.addressees.of(request.model)
        record.settle_mode(effective_mode(to.policy.mode, asked))
        await client.watch(visit, answer(request, to, visit, services))


def asked_mode(headers: RawHeaders) -> bytes:
    """Return the mode that the request asks for, if it asks for one."""
    return value_of(headers, b"x-chat-proxy-mode").strip().lower()


def effective_mode(configured: str, asked: bytes) -> str:
    """Return the mode, which a request may lower but not raise."""
    if asked == b"off" or (asked == b"observe" and configured == "on"):
        return asked.decode("ascii")
    return configured


def refuse_forms(headers: RawHeaders) -> None:
    """Refuse what any web page could make a visitor's browser send: forms, or no type at all."""
    content_type = value_of(headers, b"content-type").strip().lower()
    is_simple = not content_type or content_type.startswith(_FORM_TYPES)
    if is_simple and value_of(headers, b"origin"):
        raise UnsupportedMediaType
