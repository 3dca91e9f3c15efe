"""The front door of `/v1`: every request gets an id, a record, a caller and an answer.

A pure ASGI middleware: it serves the API's paths itself and passes all others on to FastAPI.
"""

import asyncio
import re
from collections.abc import Collection, Mapping
from random import Random
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chat_proxy.errors import InternalError, MethodNotAllowed, NotFound, ProxyError
from chat_proxy.proxy.lifecycle.cancellation import Cancellation
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.caller import ANONYMOUS
from chat_proxy.proxy.services import Services
from chat_proxy.routes.forward import is_plain
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.front.browser_guard import BrowserGuard
from chat_proxy.routes.front.error_responses import hint_for, response_of, send_error
from chat_proxy.routes.front.identity import Gate
from chat_proxy.telemetry.logs import WARNING, log_each, log_exception
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.wires.recognise import wire_of_path

# A generator of its own, so that code which seeds the common one does not make ids repeat.
_IDS = Random()  # noqa: S311 - ids need to differ, not to be secret
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class Endpoint(Protocol):
    """Answers one path, or all paths below one."""

    route: str
    methods: frozenset[str]

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Answer one request."""
        ...


class UnknownPath:
    """Answers paths that do not exist."""

    route = "unknown"
    methods = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})

    def __init__(self, known: Collection[str] = ()) -> None:
        self._known = known

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:  # noqa: ARG002 - as all endpoints
        """Raise NotFound, with a hint if it is clear what the client has to change."""
        raise NotFound(hint_for(client.path, self._known))


class FrontDoor:
    """Answer requests to `/v1`; pass all others on to the app."""

    def __init__(
        self,
        app: ASGIApp,
        endpoints: Mapping[str, Endpoint],
        gate: Gate,
        guard: BrowserGuard,
        services: Services,
        *,
        uses_shortcuts: bool = True,
    ) -> None:
        """Use the server's shortcuts only if no middleware is outside of the front door."""
        self._app = app
        self._uses_shortcuts = uses_shortcuts
        self._logs_addresses = services.policy.logs_addresses
        self._exact = {path: it for path, it in endpoints.items() if not path.endswith("/")}
        self._below = {path: it for path, it in endpoints.items() if path.endswith("/")}
        self._unknown = UnknownPath(self._exact)
        self._gate = gate
        self._guard = guard
        self._deadlines = services.forwarding.deadlines
        self._drain = services.drain
        self._admission = services.admission
        self._metrics = services.metrics
        self._chat_log = services.chat_log
        self._tracing = services.tracing
        self._finished: list[RequestRecord] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; every error becomes a response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = AsgiClient(scope, receive, send, uses_shortcuts=self._uses_shortcuts)
        if not client.path.startswith("/v1/"):
            await self._pass_on(client, receive, with_request_id(client, send))
            return
        endpoint = self._exact.get(client.path) or self._endpoint_above(client.raw_path)
        context = new_context(endpoint.route, client, self._deadlines.loop)
        if self._logs_addresses:
            context.record.client = (scope.get("client") or ("",))[0]
        if self._tracing.begin is not None:
            context.record.span = self._tracing.begin(context.record, client.headers)
        try:
            with context.cancellation:
                context.record.page_headers = self._guard.page_headers(client.values)
                if context.record.page_headers and scope["method"] == "OPTIONS":
                    await self._answer_preflight(endpoint, context, client)
                    return
                self._admit(endpoint, context)
                await endpoint(context, client)
        except ProxyError as error:
            await send_error(error, context)
        except Exception as error:  # noqa: BLE001 - the client gets an answer whatever happens
            log_exception("request failed by a mistake in the proxy", error)
            await send_error(InternalError(), context)
        finally:
            self._finish(context, client)

    async def _pass_on(self, client: AsgiClient, receive: Receive, send: Send) -> None:
        """Have FastAPI answer a request, unless a foreign page sent it."""
        try:
            self._guard.check_names(client.values)
        except ProxyError as error:
            await response_of(error)(client.scope, receive, send)
            return
        await self._app(client.scope, receive, send)

    def _endpoint_above(self, raw_path: bytes) -> Endpoint:
        """Return the endpoint of all paths below one, if the path has no second meaning."""
        if is_plain(raw_path):
            for path, below in self._below.items():
                if raw_path.startswith(path.encode()):
                    return below
        return self._unknown

    async def _answer_preflight(
        self, endpoint: Endpoint, context: RequestContext, client: AsgiClient
    ) -> None:
        """Answer a browser that asks what a page may do; it sends no key."""
        self._guard.check_names(context.values)
        headers = self._guard.preflight(context.values, endpoint.methods)
        if not headers:
            raise MethodNotAllowed(endpoint.methods)
        context.record.status = 204
        await client.start(204, [*headers, *context.record.response_headers()])
        await client.end()

    def _admit(self, endpoint: Endpoint, context: RequestContext) -> None:
        """Identify the caller, or raise why the request is refused."""
        self._drain.enter(context.cancellation)
        self._guard.check_names(context.values)
        context.caller = self._gate.caller(context.headers, context.query)
        context.record.tenant = context.caller.tenant
        if context.record.method not in endpoint.methods:
            raise MethodNotAllowed(endpoint.methods)
        if context.record.method == "POST":
            self._guard.check_form(context.values)

    def _finish(self, context: RequestContext, client: AsgiClient) -> None:
        """Release what the request held, and have its record reported."""
        record = context.record
        self._drain.leave(context.cancellation)
        self._admission.hold(context.caller.tenant, client.held_bytes, 0)
        record.finish()
        self._finished.append(record)
        if len(self._finished) == 1:
            self._deadlines.loop.call_soon(self._report)

    def _report(self) -> None:
        """Count and log finished requests, after their answers have been written."""
        records, self._finished = self._finished, []
        for record in records:
            try:
                self._metrics.observe(record)
                self._chat_log.add(record)
                record.span.finish(record)
            except Exception as error:  # noqa: BLE001 - metering fails open: the answer is sent
                log_exception("request could not be counted", error)
        usual = [record.log_fields() for record in records if not record.warns]
        if usual:
            log_each("request", usual)
        if len(usual) < len(records):
            log_each("request", [each.log_fields() for each in records if each.warns], WARNING)


def new_context(route: str, client: AsgiClient, loop: asyncio.AbstractEventLoop) -> RequestContext:
    """Return the context of a request whose caller is not identified yet."""
    scope = client.scope
    record = RequestRecord(request_id(client.values), route, scope["method"])
    query = scope["query_string"]
    return RequestContext(
        record,
        ANONYMOUS,
        client.headers,
        client.values,
        query,
        client,
        Cancellation(loop),
        wire=wire_of_path(route),
    )


def request_id(values: Mapping[bytes, bytes]) -> str:
    """Return the client's request id if it sent a harmless one, else a new one."""
    given = values.get(b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return _IDS.getrandbits(128).to_bytes(16).hex()


def with_request_id(client: AsgiClient, send: Send) -> Send:
    """Return a `send` that adds the request id to an answer that has no record."""
    header = (b"x-request-id", request_id(client.values).encode("ascii"))

    async def send_with_id(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], header]}
        await send(message)

    return send_with_id
