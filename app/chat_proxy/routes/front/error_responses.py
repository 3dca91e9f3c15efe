"""Errors in the format of their API: as a response, or as the last event of a stream."""

import asyncio
from collections.abc import Callable, Container, Coroutine
from typing import Any, Final

import orjson
from fastapi import Request, Response
from starlette.exceptions import HTTPException

from chat_proxy.errors import (
    ClientGone,
    InternalError,
    MethodNotAllowed,
    NotFound,
    ProxyError,
    UpstreamError,
)
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.wires.answers import Tap
from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS
from chat_proxy.wires.wire import Wire

SEND_SECONDS = 2
NOTHING_COMPACTED = (b"x-chat-proxy-compaction", b"none")
"""The header of an error response that has no record."""

INDEX: Final = {
    "service": "chat-proxy",
    "base_url": "this address with /v1",
    "models": "/v1/models",
    "health": "/healthz",
    "dashboard": "/dashboard",
    "metrics": "/metrics",
}
"""What someone reads who opens the proxy's address in a browser."""

Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]


def error_body(error: ProxyError, wire: Wire = CHAT_COMPLETIONS) -> bytes:
    """Return the error as JSON, in the form of its wire."""
    return orjson.dumps(wire.answers.error_document(error))


def error_headers(error: ProxyError, body: bytes) -> RawHeaders:
    """Return the headers of an error response."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-chat-proxy-error", error.code.encode("ascii")),
    ]
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.methods).encode("ascii")))
    if error.closes_connection:
        headers.append((b"connection", b"close"))
    return headers


async def send_error(error: ProxyError, context: RequestContext) -> None:
    """Send an error in the form that is still possible; break the connection if none is."""
    record = context.record
    record.code = error.code
    sentence = reason_of(error, record.upstream)
    record.explain_failure(sentence, error.status, warns=error.status >= 500)
    if isinstance(error, ClientGone):
        record.status = record.status or error.status
        await context.sink.abort()
        return
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await _send(error, context)
    except TimeoutError:
        await context.sink.abort()


def reason_of(error: ProxyError, upstream: str) -> str:
    """Return an error's message for operators: they see which upstream it was, clients do not."""
    if not isinstance(error, UpstreamError) or not upstream:
        return error.message
    return f"{error.message.rstrip('.')} ({upstream})."


async def _send(error: ProxyError, context: RequestContext) -> None:
    sink, record = context.sink, context.record
    if not sink.started:
        record.status = error.status
        body = error_body(error, context.wire)
        record.bytes_out = len(body)
        headers = [*error_headers(error, body), *record.response_headers()]
        await sink.start(error.status, headers)
        await sink.end(body)
    elif context.tap is not None:
        ids = record.request_id, context.response_id
        await sink.end(last_event(error, context.tap, context.wire, *ids))
    else:
        await sink.abort()


def last_event(
    error: ProxyError, tap: Tap, wire: Wire, request_id: str, response_id: str = ""
) -> bytes:
    """Return the error as the stream's last event; empty if the stream was complete."""
    if tap.done:
        return b""
    open_line = b"\n\n" if tap.is_inside_event else b""
    form = wire.answers
    return open_line + form.error_event(form.error_document(error), request_id, response_id)


async def _answer_refusal(request: Request, error: Exception) -> Response:
    """Answer an HTTPException that Starlette raised for an unknown path or method."""
    assert isinstance(error, HTTPException)
    if error.status_code != 405:
        return _answer_unknown_path(request)
    allowed = (error.headers or {}).get("Allow", "GET")
    return response_of(MethodNotAllowed(allowed.split(", ")))


def _answer_unknown_path(request: Request) -> Response:
    """Answer a path that neither the proxy nor the app around it has, with a hint if it can."""
    path: str = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if path in ("", "/") and request.method in ("GET", "HEAD"):
        switched_off = getattr(request.app.state, "switched_off", ())
        shown = {name: value for name, value in INDEX.items() if name not in switched_off}
        return Response(orjson.dumps(shown), media_type="application/json")
    hint = hint_for(path, getattr(request.app.state, "endpoint_paths", ()))
    error = NotFound(hint)
    if hint:
        log("request refused", WARNING, path=path, status=error.status, reason=hint)
    return response_of(error)


def hint_for(path: str, known: Container[str]) -> str:
    """Return how a client's base URL must be changed, empty if that is not clear."""
    bare = path.rstrip("/")
    if bare in ("", "/v1"):
        return "This is the base URL: clients add a path to it, such as /chat/completions."
    if f"/v1{bare}" in known:
        return f"Use /v1{bare}: the client's base URL must end in /v1."
    if bare.removeprefix("/v1") in known:
        return f"Use {bare.removeprefix('/v1')}: the client's base URL has /v1 twice."
    if bare != path and bare in known:
        return f"Use {bare}, without a slash at its end."
    if path.startswith("/api/"):
        return "Ollama's own API is not served: use OpenAI's, with a base URL that ends in /v1."
    return ""


async def _answer_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProxyError)
    return response_of(error)


async def _answer_bug(_: Request, __: Exception) -> Response:
    """Answer a bug in the proxy without details; Starlette raises it again and it is logged."""
    return response_of(InternalError())


def response_of(error: ProxyError) -> Response:
    """Return the error as a Starlette response."""
    body = error_body(error)
    headers = [*error_headers(error, body), NOTHING_COMPACTED]
    return Response(body, error.status, {name.decode(): value.decode() for name, value in headers})


ERROR_HANDLERS: Final[dict[int | type[Exception], Handler]] = {
    HTTPException: _answer_refusal,
    ProxyError: _answer_error,
    Exception: _answer_bug,
}
