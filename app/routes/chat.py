"""`POST /v1/chat/completions`: read, parse once, and off on its journey."""

from app.chat.request import read_request
from app.errors import UnsupportedMediaType
from app.proxy.exchange import answer
from app.proxy.services import Services
from app.proxy.visit import Visit
from app.routes.client import Client
from app.upstream.headers import RawHeaders, value_of

MODES = {b"off": "off", b"observe": "observe"}
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
        record.mode = effective_mode(services.policy.mode, visit.headers)
        record.compaction = "off" if record.mode == "off" else "none"
        refuse_forms(visit.headers)
        body = await client.read_body(services.policy.max_body_bytes, services.admission)
        record.bytes_in = len(body)
        request = read_request(body, services.limits)
        if request.body is not body:
            services.metrics.repeated_keys.inc()
        await client.watch(visit, answer(request, visit, services))


def effective_mode(configured: str, headers: RawHeaders) -> str:
    """Return the mode, which a request may lower but not raise."""
    asked = MODES.get(value_of(headers, b"x-chat-proxy-mode").strip().lower(), configured)
    order = ("off", "observe", "on")
    return min(configured, asked, key=order.index)


def refuse_forms(headers: RawHeaders) -> None:
    """Refuse what any web page could make a visitor's browser send."""
    content_type = value_of(headers, b"content-type").lower()
    if content_type.startswith(_FORM_TYPES) and value_of(headers, b"origin"):
        raise UnsupportedMediaType
