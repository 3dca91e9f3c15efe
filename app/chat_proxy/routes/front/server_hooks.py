"""What the HTTP server calls of the application: error responses and metrics."""

from chat_proxy.errors import InternalError, ProxyError
from chat_proxy.http.headers import RawHeaders, values_of
from chat_proxy.http.server.hooks import Response, ServerHooks
from chat_proxy.routes.front.error_responses import NOTHING_COMPACTED, error_body, error_headers
from chat_proxy.routes.front.front_door import request_id
from chat_proxy.telemetry.logs import log
from chat_proxy.telemetry.metrics import Metrics


def server_hooks(metrics: Metrics) -> ServerHooks:
    """Return the hooks of a server whose refusals are counted in these metrics."""
    return ServerHooks(
        refusal,
        failure,
        lambda code: metrics.refused_connections.labels(code).inc(),
        lambda phase: metrics.slow_clients.labels(phase).inc(),
    )


def refusal(error: ProxyError, request_headers: RawHeaders) -> Response:
    """Return the response to a refused request, and log it: no endpoint will."""
    identity = request_id(values_of(request_headers))
    log("request refused", request_id=identity, status=error.status, code=error.code)
    body = error_body(error)
    headers = error_headers(error, body)
    headers += [(b"x-request-id", identity.encode("ascii")), NOTHING_COMPACTED]
    return headers, body


def failure() -> Response:
    """Return the response for a mistake in the proxy."""
    error = InternalError()
    body = error_body(error)
    return error_headers(error, body), body
