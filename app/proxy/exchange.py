"""The journey of a request: find its model, send it, relay the answer."""

import asyncio

from app.chat.request import ChatRequest
from app.errors import (
    UpstreamError,
    UpstreamFirstByteTimeout,
    UpstreamInvalidResponse,
    UpstreamRedirect,
)
from app.proxy.interrupt import Watchdog
from app.proxy.relay import Relay, RelayBytes, RelayChat
from app.proxy.services import Services
from app.proxy.visit import Visit
from app.registry.model_card import ModelCard
from app.upstream.client import Call, Reply
from app.upstream.headers import sent_on


async def answer(request: ChatRequest, visit: Visit, services: Services) -> None:
    """Take a chat request through its whole journey."""
    card = services.registry.find(request.model)
    call = call_of(visit, services, card, "/chat/completions", request.body)
    note_request(request, card, visit, services)
    await _exchange(call, RelayChat(visit, services.policy), visit, services)


async def pass_on(
    path: str, body: bytes, card: ModelCard, visit: Visit, services: Services
) -> None:
    """Send a request of another kind on and relay its answer, neither looked at."""
    call = call_of(visit, services, card, path, body)
    await _exchange(call, RelayBytes(visit, services.policy), visit, services)


def call_of(visit: Visit, services: Services, card: ModelCard, path: str, body: bytes) -> Call:
    """Return the upstream call: destination and identity from configuration, the rest as sent."""
    return Call(
        visit.record.method,
        services.destinations.base_url_of(card),
        path,
        [
            *services.destinations.credentials_for(card, visit.caller),
            *sent_on(visit.headers),
            (b"x-request-id", visit.record.request_id.encode("ascii")),
        ],
        body,
        visit.query,
    )


def note_request(request: ChatRequest, card: ModelCard, visit: Visit, services: Services) -> None:
    """Write down what is asked for, and keep the model's window known."""
    record = visit.record
    record.model = request.model
    record.streams = request.streams
    window = card.context_window or services.windows.window_of(
        services.destinations.base_url_of(card),
        request.model,
        services.destinations.credentials_for(card, visit.caller),
    )
    record.window = window or 0


async def _exchange(call: Call, relay: Relay, visit: Visit, services: Services) -> None:
    """Send the call and relay its answer under the policy's deadlines."""
    watchdog = Watchdog(
        visit.interrupt,
        services.policy.total_seconds,
        services.policy.first_byte_seconds,
        UpstreamFirstByteTimeout,
    )
    try:
        reply = await _send(call, visit, services)
        try:
            refuse_odd(reply.status)
            await relay.run(reply, watchdog)
        finally:
            reply.let_go()
    finally:
        watchdog.close()
        if visit.tap is not None and visit.tap.off:
            services.metrics.untapped_streams.inc()


async def _send(call: Call, visit: Visit, services: Services) -> Reply:
    """Return the upstream's answer; one that does not come in time counts against the upstream."""
    try:
        reply = await services.upstream.send(call)
    except asyncio.CancelledError:
        if isinstance(visit.interrupt.reason, UpstreamError):
            services.upstream.breakers.of(call.base_url).failed()
        raise
    visit.record.upstream_answered()
    visit.record.retried = reply.retried
    return reply


def refuse_odd(status: int) -> None:
    """Refuse what is no answer to a client's question: redirects, and statuses nobody asked for."""
    if status == 304 or not 200 <= status < 600:
        raise UpstreamInvalidResponse
    if 300 <= status < 400:
        raise UpstreamRedirect
