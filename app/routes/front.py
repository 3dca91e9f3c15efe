"""The front door of `/v1`: every request gets an id, a record, an owner and an answer.

A plain ASGI class before FastAPI's own routing, which the hot path has no use for.
"""

import asyncio
import re
from collections.abc import Mapping
from random import Random
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import MethodNotAllowed, NotFound, ProxyError
from app.proxy.caller import NOBODY
from app.proxy.interrupt import Interruptible
from app.proxy.services import Services
from app.proxy.visit import Visit
from app.routes.client import Client
from app.routes.error_responses import tell
from app.routes.forward import is_plain
from app.routes.identity import Gate
from app.telemetry.logs import say_mistake, say_of_each
from app.telemetry.record import ExchangeRecord
from app.upstream.headers import values_of

# Of its own, so that nobody who seeds the common one makes ids repeat.
_IDS = Random()  # noqa: S311 - ids need to differ, not to be secret
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class Endpoint(Protocol):
    """What answers one path, or all paths below one."""

    route: str
    methods: frozenset[str]

    async def __call__(self, visit: Visit, client: Client) -> None:
        """Answer one request."""
        ...


class Nothing:
    """Answers paths that are not there."""

    route = "unknown"
    methods = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})

    async def __call__(self, visit: Visit, client: Client) -> None:  # noqa: ARG002 - as all endpoints
        """Say so."""
        raise NotFound


class Front:
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
        self._nothing = Nothing()
        self._gate = gate
        self.services = services
        self._turn = services.upstream.outbox
        self._concluded: list[ExchangeRecord] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for the API, or let it through; what goes wrong is told the client."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, with_request_id(scope, send))
            return
        endpoint = self._endpoint(scope)
        client = Client(scope, receive, send)
        visit = new_visit(endpoint.route, client, self.services.deadlines.loop)
        try:
            with visit.interrupt:
                self.services.metrics.begin()
                self._admit(endpoint, visit)
                await endpoint(visit, client)
        except ProxyError as error:
            await tell(error, visit)
        except Exception as error:  # noqa: BLE001 - the last line before the client
            say_mistake("request failed by a mistake in the proxy", error)
            await tell(ProxyError("The proxy made a mistake; its log says where."), visit)
        finally:
            self._conclude(visit, client)

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

    def _admit(self, endpoint: Endpoint, visit: Visit) -> None:
        """Let the request in, or raise what stands against it."""
        self.services.drain.enter(visit.interrupt)
        visit.caller = self._gate.caller(visit.headers, visit.query)
        visit.record.tenant = visit.caller.tenant
        if visit.record.method not in endpoint.methods:
            raise MethodNotAllowed(endpoint.methods)

    def _conclude(self, visit: Visit, client: Client) -> None:
        """Let go of what the request held, and say what happened to it."""
        services, record = self.services, visit.record
        services.drain.leave(visit.interrupt)
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
                self.services.exchanges.add(record)
            except Exception as error:  # noqa: BLE001 - the client has its answer already
                say_mistake("request could not be counted", error)
        say_of_each("request", [record.log_fields() for record in records])


def new_visit(route: str, client: Client, loop: asyncio.AbstractEventLoop) -> Visit:
    """Return a visit whose caller is not known yet."""
    scope = client.scope
    record = ExchangeRecord(request_id(client.values), route, scope["method"])
    query = scope["query_string"]
    return Visit(record, NOBODY, client.headers, client.values, query, client, Interruptible(loop))


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
