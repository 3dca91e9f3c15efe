"""The front door of `/v1`: every request gets an id, a record, an owner and an answer.

A plain ASGI class before FastAPI's own routing, which the hot path has no use for.
"""

import asyncio
import re
from collections.abc import Mapping
from random import Random
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chat_proxy.errors import MethodNotAllowed, NotFound, ProxyError
from chat_proxy.http.headers import values_of
from chat_proxy.proxy.lifecycle.cancellation import Cancellation
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.caller import NOBODY
from chat_proxy.proxy.services import Services
from chat_proxy.routes.forward import is_plain
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.front.error_responses import send_error
from chat_proxy.routes.front.identity import Gate
from chat_proxy.telemetry.logs import log_each, log_exception
from chat_proxy.telemetry.record import RequestRecord

# Of its own, so that nobody who seeds the common one makes ids repeat.
_IDS = Random()  # noqa: S311 - ids need to differ, not to be secret
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class Endpoint(Protocol):
    """What answers one path, or all paths below one."""

    route: str
    methods: frozenset[str]

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Answer one request."""
        ...


class UnknownPath:
    """Answers paths that are not there."""

    route = "unknown"
    methods = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:  # noqa: ARG002 - as all endpoints
        """Say so."""
        raise NotFound


class FrontDoor:
    """Serves the API's paths and hands all others to the app behind it."""

    def __init__(
        self,
        app: ASGIApp,
        endpoints: Mapping[str, Endpoint],
        gate: Gate,
        services: Services,
    ) -> None:
        self._app = app
        self._exact = {path: it for path, it in endpoints.items() if not path.endswith("/")}
        self._below = {path: it for path, it in endpoints.items() if path.endswith("/")}
        self._nothing = UnknownPath()
        self._gate = gate
        self.services = services
        self._turn = services.upstream.write_batch
        self._concluded: list[RequestRecord] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for the API, or let it through; what goes wrong is told the client."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, with_request_id(scope, send))
            return
        endpoint = self._endpoint(scope)
        client = AsgiClient(scope, receive, send)
        context = new_context(endpoint.route, client, self.services.deadlines.loop)
        try:
            with context.interrupt:
                self.services.metrics.begin()
                self._admit(endpoint, context)
                await endpoint(context, client)
        except ProxyError as error:
            await send_error(error, context)
        except Exception as error:  # noqa: BLE001 - the last line before the client
            log_exception("request failed by a mistake in the proxy", error)
            await send_error(ProxyError("The proxy made a mistake; its log says where."), context)
        finally:
            self._conclude(context, client)

    def _endpoint(self, scope: Scope) -> Endpoint:
        endpoint = self._exact.get(scope["path"])
        if endpoint is not None:
            return endpoint
        raw_path = scope["raw_path"]
        if is_plain(raw_path):
            for path, below in self._below.items():
                if raw_path.startswith(path.encode()):
                    return below
        return self._nothing

    def _admit(self, endpoint: Endpoint, context: RequestContext) -> None:
        """Let the request in, or raise what stands against it."""
        self.services.drain.enter(context.interrupt)
        context.caller = self._gate.caller(context.headers, context.query)
        context.record.tenant = context.caller.tenant
        if context.record.method not in endpoint.methods:
            raise MethodNotAllowed(endpoint.methods)

    def _conclude(self, context: RequestContext, client: AsgiClient) -> None:
        """Let go of what the request held, and say what happened to it."""
        services, record = self.services, context.record
        services.drain.leave(context.interrupt)
        services.admission.give_back(client.held_bytes)
        record.finish()
        self._concluded.append(record)
        if self._turn.is_over:
            self._tell()
        elif len(self._concluded) == 1:
            services.deadlines.loop.call_soon(self._tell)

    def _tell(self) -> None:
        """Count and log what ended in this turn of the loop: together it costs less."""
        records, self._concluded = self._concluded, []
        if not records:
            return  # somebody was quicker than the loop
        for record in records:
            try:
                self.services.metrics.observe(record)
                self.services.chat_log.add(record)
            except Exception as error:  # noqa: BLE001 - the client has its answer already
                log_exception("request could not be counted", error)
        log_each("request", [record.log_fields() for record in records])


def new_context(route: str, client: AsgiClient, loop: asyncio.AbstractEventLoop) -> RequestContext:
    """Return a visit whose caller is not known yet."""
    scope = client.scope
    record = RequestRecord(request_id(client.values), route, scope["method"])
    query = scope["query_string"]
    return RequestContext(
        record, NOBODY, client.headers, client.values, query, client, Cancellation(loop)
    )


def request_id(values: Mapping[bytes, bytes]) -> str:
    """Return the client's request id if its headers have a harmless one, else a new one."""
    given = values.get(b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return _IDS.getrandbits(128).to_bytes(16).hex()


def with_request_id(scope: Scope, send: Send) -> Send:
    """Return a `send` that puts the request's id on an answer that has no record."""
    header = (b"x-request-id", request_id(values_of(scope["headers"])).encode("ascii"))

    async def send_with_id(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], header]}
        await send(message)

    return send_with_id
