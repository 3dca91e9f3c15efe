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
from app.proxy.measure import Measured, measure
from app.proxy.relay import Relay, RelayBytes, RelayChat
from app.proxy.services import Services
from app.proxy.visit import Visit
from app.registry.model_card import ModelCard
from app.telemetry.logs import say_mistake
from app.upstream.client import Call, Reply
from app.upstream.headers import sent_on


async def answer(request: ChatRequest, visit: Visit, services: Services) -> None:
    """Take a chat request through its whole journey."""
    card = services.registry.find(request.model)
    visit.record.model = request.model
    visit.record.streams = request.streams
    measured = await measured_or_not(request, card, visit, services)
    call = call_of(visit, services, card, "/chat/completions", request.body)
    await _exchange(call, RelayChat(visit, services.policy), visit, services)
    if measured is not None:
        learn(measured, call.base_url, visit, services)


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


async def measured_or_not(
    request: ChatRequest, card: ModelCard, visit: Visit, services: Services
) -> Measured | None:
    """Measure the request and note its size; a request that cannot be measured goes on as it is."""
    record = visit.record
    if record.mode == "off":
        return None
    credentials = services.destinations.credentials_for(card, visit.caller)
    try:
        measured = await measure(request, card, credentials, services)
    except Exception as error:  # noqa: BLE001 - features fail open
        say_mistake("request could not be measured", error)
        record.compaction = "failed-open"
        return None
    if measured is not None:
        record.tokens_before = record.tokens_after = measured.tokens
        if measured.window is not None:
            record.window = measured.window.tokens
            record.window_source = measured.window.source
    return measured


def learn(measured: Measured, base_url: str, visit: Visit, services: Services) -> None:
    """Compare the estimate with the upstream's own count, for the next request's sake."""
    record = visit.record
    if record.status == 200 and record.prompt_tokens > 0:
        usage = (record.prompt_tokens, record.cached_tokens)
        services.calibrations.learn(base_url, record.model, measured.count, usage)


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
        if visit.tap is not None:
            visit.note_usage(visit.tap.usage)
            if visit.tap.off:
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
