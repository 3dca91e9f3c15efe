"""The journey of a request: find its model, send it, relay the answer."""

import asyncio

from chat_proxy.errors import (
    UpstreamError,
    UpstreamFirstByteTimeout,
    UpstreamInvalidResponse,
    UpstreamRedirect,
)
from chat_proxy.proxy.forwarding.relay import Relay, RelayBytes
from chat_proxy.proxy.lifecycle.deadlines import Watchdog
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.services import Services
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.upstream.client import Call
from chat_proxy.upstream.header_rules import sent_on


async def pass_on(
    path: str, body: bytes, card: ModelCard, context: RequestContext, services: Services
) -> None:
    """Send a request of another kind on and relay its answer, neither looked at."""
    call = call_of(context, services, card, path, body)
    await send_and_relay(call, RelayBytes(context, services.policy), context, services)


def call_of(
    context: RequestContext, services: Services, card: ModelCard, path: str, body: bytes
) -> Call:
    """Return the upstream call: destination and identity from configuration, the rest as sent."""
    return Call(
        context.record.method,
        services.destinations.base_url_of(card),
        path,
        [
            *services.destinations.credentials_for(card, context.caller),
            *sent_on(context.headers),
            (b"x-request-id", context.record.request_id.encode("ascii")),
        ],
        body,
        context.query,
    )


async def send_and_relay(
    call: Call, relay: Relay, context: RequestContext, services: Services
) -> None:
    """Send the call and relay its answer under the policy's deadlines."""
    policy = services.policy
    watchdog = Watchdog(
        context.interrupt,
        services.deadlines,
        policy.total_seconds,
        policy.first_byte_seconds,
        UpstreamFirstByteTimeout,
    )
    try:
        try:
            reply = await services.upstream.send(call)
        except asyncio.CancelledError:
            # One that does not come in time counts against the upstream.
            if isinstance(context.interrupt.reason, UpstreamError):
                services.upstream.breakers.of(call.base_url).failed()
            raise
        context.record.upstream_answered()
        context.record.retried = reply.retried
        try:
            refuse_odd(reply.status)
            await relay.run(reply, watchdog)
        finally:
            reply.let_go()
    finally:
        watchdog.close()
        if context.tap is not None:
            context.note_usage(context.tap.usage)
            if context.tap.off:
                services.metrics.untapped_streams.inc()


def refuse_odd(status: int) -> None:
    """Refuse what is no answer to a client's question: redirects, and statuses nobody asked for."""
    if 200 <= status < 300:
        return
    if status == 304 or not 200 <= status < 600:
        raise UpstreamInvalidResponse
    if 300 <= status < 400:
        raise UpstreamRedirect
