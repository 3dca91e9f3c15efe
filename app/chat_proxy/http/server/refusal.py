"""The last answer on a connection whose next request is not taken."""

from chat_proxy.errors import BadRequest, ProxyError
from chat_proxy.http.headers import RawHeaders, head_of, values_of
from chat_proxy.http.server.chunked import FIRST_LINES
from chat_proxy.routes.front.error_responses import NOTHING_COMPACTED, error_body, error_headers
from chat_proxy.routes.front.front_door import request_id
from chat_proxy.telemetry.logs import log


def last_answer(error: ProxyError, asked: RawHeaders, default_headers: RawHeaders) -> bytes:
    """Return the error as it is written, and log it: no endpoint will log this request."""
    identity = request_id(values_of(asked))
    log("request refused", request_id=identity, status=error.status, code=error.code)
    body = error_body(error)
    headers = [*default_headers, *error_headers(error, body)]
    headers += [(b"x-request-id", identity.encode("ascii")), NOTHING_COMPACTED]
    if not error.closes_connection:
        headers.append((b"connection", b"close"))
    return head_of(FIRST_LINES[error.status], headers) + body


def cause_of(error: BaseException) -> ProxyError:
    """Return why the parser gave up: a refusal of ours that it passes on, or its own."""
    cause = error.__cause__ or error.__context__
    return cause if isinstance(cause, ProxyError) else BadRequest("The request is not valid HTTP.")
