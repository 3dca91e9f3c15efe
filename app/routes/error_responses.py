"""Our errors as clients read them: OpenAI's shape, as an answer or as a stream's last event."""

import asyncio

import orjson

from app.errors import ClientGone, ProxyError
from app.proxy.visit import Visit
from app.upstream.headers import RawHeaders
from app.upstream.usage import StreamTap

FAREWELL_SECONDS = 2
DONE = b"data: [DONE]\n\n"


def error_body(error: ProxyError) -> bytes:
    """Return the error as JSON."""
    return orjson.dumps(error.document())


def error_headers(error: ProxyError, body: bytes) -> RawHeaders:
    """Return the headers that go with it."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-chat-proxy-error", error.code.encode("ascii")),
    ]
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after))
    if error.closes_connection:
        headers.append((b"connection", b"close"))
    return headers


async def tell(error: ProxyError, visit: Visit) -> None:
    """Tell the client, in whatever form the exchange still allows."""
    record = visit.record
    record.code = error.code
    if isinstance(error, ClientGone):
        record.status = record.status or error.status
        await visit.sink.abort()
        return
    try:
        async with asyncio.timeout(FAREWELL_SECONDS):
            await _send(error, visit)
    except TimeoutError:
        await visit.sink.abort()


async def _send(error: ProxyError, visit: Visit) -> None:
    sink, record = visit.sink, visit.record
    if not sink.started:
        record.status = error.status
        body = error_body(error)
        record.bytes_out = len(body)
        headers = [*error_headers(error, body), *record.response_headers()]
        await sink.start(error.status, headers)
        await sink.end(body)
    elif visit.tap is not None:
        await sink.end(last_event(error, visit.tap))
    else:
        await sink.abort()


def last_event(error: ProxyError, tap: StreamTap) -> bytes:
    """Return the error as the stream's last event, nothing if the stream said all it had."""
    if tap.done:
        return b""
    open_line = b"\n\n" if tap.stands_in_a_line else b""
    return open_line + b"data: " + error_body(error) + b"\n\n" + DONE
