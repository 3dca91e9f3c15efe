"""`/dashboard`: a page for operators; its data as JSON and as server-sent events.

A plain ASGI app, so that every answer below `/dashboard` has the security headers.
"""

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from chat_proxy.errors import (
    InvalidApiKey,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    ProxyError,
    UntrustedHost,
)
from chat_proxy.routes.dashboard.event_stream import EventStream
from chat_proxy.routes.dashboard.page_files import page_files
from chat_proxy.routes.dashboard.snapshot import Feed, Snapshots, Viewer
from chat_proxy.routes.front.browser_guard import is_local_name
from chat_proxy.routes.front.error_responses import response_of
from chat_proxy.routes.front.identity import AdminGate

ROOT = "/dashboard"
METHODS = ("GET", "HEAD")
MAX_VIEWERS = 20
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Dashboard:
    """Answer all requests at and below `/dashboard`."""

    def __init__(self, snapshots: Snapshots, admin: AdminGate, *, has_key: bool) -> None:
        self._snapshots = snapshots
        self._feed = Feed(snapshots)
        self._admin = admin
        self._has_key = has_key
        self._files = page_files()
        self._viewers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope)
        try:
            answer = await self._answer(request)
        except ProxyError as error:
            answer = refusal(error)
        self._viewers += isinstance(answer, EventStream)
        try:
            await answer(scope, receive, send)
        finally:
            self._viewers -= isinstance(answer, EventStream)

    async def _answer(self, request: Request) -> ASGIApp:
        self._check_host(request)
        if request.method not in METHODS:
            raise MethodNotAllowed(METHODS)
        path = request.url.path.removeprefix(request.scope.get("root_path", "")).removeprefix(ROOT)
        if path == "":
            return self._page(request)
        if path == "/":
            return Response(status_code=308, headers={**HEADERS, "location": "../dashboard"})
        if (file := self._files.get(path[1:])) is not None:
            return Response(file.content, headers=HEADERS, media_type=file.media_type)
        self._admin.check(request.headers.raw)
        return await self._figures(path, request)

    def _page(self, request: Request) -> Response:
        """Return the page; without a valid key it shows nothing but a form to enter one."""
        try:
            self._admin.check(request.headers.raw)
            status = 200
        except InvalidApiKey as error:
            status = error.status
        page = self._files["index.html"]
        return Response(page.content, status, HEADERS, page.media_type)

    async def _figures(self, path: str, request: Request) -> ASGIApp:
        """Return the data, which needs the admin key if one is set."""
        snapshots = self._snapshots
        history = snapshots.chat_log.history
        if path == "/events" and request.method == "GET":
            if self._viewers >= MAX_VIEWERS:
                raise Overloaded("Too many dashboards are open.", retry_after=5)
            return EventStream(Viewer(self._feed), snapshots.operations.drain, HEADERS)
        if path == "/data":
            await history.refresh()
            return json_answer(orjson.dumps(snapshots.snapshot()))
        if path.startswith("/detail/"):
            detail = await history.detail(path.removeprefix("/detail/"))
            if detail is not None:
                return json_answer(detail)
        raise NotFound

    def _check_host(self, request: Request) -> None:
        """Refuse public host names: by DNS rebinding, a foreign page could read ours (F15)."""
        if not self._has_key and not is_local_name(request.url.hostname or ""):
            raise UntrustedHost(
                "Without CHAT_PROXY_AUTH_ADMIN_KEY the dashboard is served under addresses and "
                "local names only."
            )


def json_answer(body: bytes) -> Response:
    """Return a JSON body as a response."""
    return Response(body, headers=HEADERS, media_type="application/json")


def refusal(error: ProxyError) -> Response:
    """Return the error as a response with the security headers."""
    response = response_of(error)
    response.headers.update(HEADERS)
    return response
