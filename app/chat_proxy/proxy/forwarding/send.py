"""Send a call to its upstream and relay the answer, under the deadlines of the request."""

from dataclasses import dataclass, replace

from chat_proxy.errors import (
    UpstreamFirstByteTimeout,
    UpstreamInvalidResponse,
    UpstreamRedirect,
)
from chat_proxy.proxy.forwarding.relay import Relay, RelayBytes
from chat_proxy.proxy.lifecycle.cancellation import Cancellation, Deadlines, Watchdog
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.routing.request_policy import RequestPolicy
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.upstream.client import Call, Upstream
from chat_proxy.upstream.header_rules import forwarded_headers


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The state and limits that sending and relaying use."""

    upstream: Upstream
    deadlines: Deadlines
    policy: RequestPolicy
    metrics: Metrics


async def forward(
    path: str, body: bytes, route: ModelRoute, context: RequestContext, forwarding: Forwarding
) -> None:
    """Forward a request of another kind than chat and relay its answer, both byte for byte."""
    context.record.upstream = route.base_url
    call = call_of(path, body, route, context)
    await send_and_relay(call, RelayBytes(context, forwarding.policy), context, forwarding)


def call_of(path: str, body: bytes, route: ModelRoute, context: RequestContext) -> Call:
    """Return the upstream call: destination and identity by the route, the rest as it was sent."""
    return Call(
        context.record.method,
        route.base_url,
        path,
        [
            *route.credentials_for(context.caller),
            *forwarded_headers(context.headers),
            (b"x-request-id", context.record.request_id.encode("ascii")),
        ],
        body,
        context.query,
    )


async def send_and_relay(
    call: Call, relay: Relay, context: RequestContext, forwarding: Forwarding
) -> None:
    """Send the call and relay its answer; the connection is released whatever happens."""
    policy = forwarding.policy
    watchdog = Watchdog(
        context.cancellation,
        forwarding.deadlines,
        policy.total_seconds,
        policy.first_byte_seconds,
        UpstreamFirstByteTimeout,
    )
    record = context.record
    record.upstream_called()
    with record.span.upstream_call(record) as span:
        call.headers = span.with_context(call.headers)
        try:
            reply = await forwarding.upstream.send(call)
            record.upstream_answered()
            record.retried = reply.retried
            span.answered(reply.status)
            try:
                refuse_unusable_status(reply.status)
                await relay.run(reply, watchdog)
            finally:
                reply.release()
        finally:
            watchdog.close()
            if context.tap is not None:
                if usage := context.tap.usage:
                    record.set_usage(*usage)
                if context.tap.off:
                    forwarding.metrics.untapped_streams.inc()
        span.used(record.prompt_tokens, record.completion_tokens, record.cached_tokens)


async def send_again(
    call: Call, relay: Relay, context: RequestContext, forwarding: Forwarding
) -> None:
    """Send a call whose deadlines end only the call: its UpstreamError is raised to the caller.

    Everything else that cancels the request still does.
    """
    with Cancellation(forwarding.deadlines.loop) as cancellation:
        context = replace(context, cancellation=cancellation)
        await send_and_relay(call, relay, context, forwarding)


def refuse_unusable_status(status: int) -> None:
    """Raise for a status that is no answer to a request: redirects, 304, unknown ones."""
    if 200 <= status < 300:
        return
    if status == 304 or not 200 <= status < 600:
        raise UpstreamInvalidResponse
    if 300 <= status < 400:
        raise UpstreamRedirect
