"""The journey of a request: find its model, send it, relay the answer."""

import asyncio

from app.chat.request import ChatRequest
from app.errors import (
    UpstreamError,
    UpstreamFirstByteTimeout,
    UpstreamInvalidResponse,
    UpstreamRedirect,
)
from app.proxy.addressee import Addressee
from app.proxy.command import command_in
from app.proxy.command_answer import obey
from app.proxy.interrupt import Watchdog
from app.proxy.keep_alive import KeptAlive
from app.proxy.prepare import Prepared, prepared_or_not, replayed_or_not
from app.proxy.relay import Relay, RelayBytes, RelayChat, TooLong
from app.proxy.services import Services
from app.proxy.visit import Visit
from app.registry.model_card import ModelCard
from app.telemetry.record import ExchangeRecord
from app.tokens.counter import RequestCount
from app.upstream.client import Call
from app.upstream.headers import sent_on


async def answer(request: ChatRequest, to: Addressee, visit: Visit, services: Services) -> None:
    """Take a chat request through its whole journey."""
    record = visit.record
    record.model = to.model
    record.streams = request.streams
    commands = services.policy.answers_commands and record.mode == "on"
    if commands and (command := command_in(request)) is not None:
        await obey(command, to, visit, services)
        return
    prepared = await prepared_in_step(request, to, visit, services)
    record.prepared()
    prepared = await sent_until_it_fits(prepared, to, visit, services)
    if prepared.counted is not None:
        learn(prepared.counted, to, record, services)


async def prepared_in_step(
    request: ChatRequest, to: Addressee, visit: Visit, services: Services
) -> Prepared:
    """Prepare a request among those that came with it: all count, and then all send."""
    if visit.record.mode == "off":
        return Prepared(request.body)
    await services.upstream.outbox.step()
    if visit.record.streams:
        async with KeptAlive(visit, to.policy.summary.keep_alive_seconds):
            prepared = await prepared_or_not(request, to, visit, services)
    else:
        prepared = await prepared_or_not(request, to, visit, services)
    await services.upstream.outbox.step()
    return prepared


async def sent_until_it_fits(
    prepared: Prepared, to: Addressee, visit: Visit, services: Services
) -> Prepared:
    """Send a request and relay its answer; one that is too long is sent again, smaller.

    Without a smaller form the client gets the upstream's own refusal. Returns what was sent last.
    """
    while True:
        call = call_of(visit, services, to.card, "/chat/completions", prepared.body)
        relay = RelayChat(visit, services.policy, holds_overflows=prepared.case is not None)
        try:
            await _exchange(call, relay, visit, services)
        except TooLong as too_long:
            refusal = too_long
        else:
            return prepared
        async with KeptAlive(visit, to.policy.summary.keep_alive_seconds):
            again = await replayed_or_not(prepared, refusal.overflow, visit, services)
        if again is None:
            await relay.pass_on(refusal)
            return prepared
        prepared = again


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


def learn(count: RequestCount, to: Addressee, record: ExchangeRecord, services: Services) -> None:
    """Compare the estimate with the upstream's own count, for the next request's sake."""
    if record.status == 200 and record.prompt_tokens > 0:
        usage = (record.prompt_tokens, record.cached_tokens)
        services.calibrations.learn(to.base_url, to.model, count, usage)


async def _exchange(call: Call, relay: Relay, visit: Visit, services: Services) -> None:
    """Send the call and relay its answer under the policy's deadlines."""
    policy = services.policy
    watchdog = Watchdog(
        visit.interrupt,
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
            if isinstance(visit.interrupt.reason, UpstreamError):
                services.upstream.breakers.of(call.base_url).failed()
            raise
        visit.record.upstream_answered()
        visit.record.retried = reply.retried
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


def refuse_odd(status: int) -> None:
    """Refuse what is no answer to a client's question: redirects, and statuses nobody asked for."""
    if 200 <= status < 300:
        return
    if status == 304 or not 200 <= status < 600:
        raise UpstreamInvalidResponse
    if 300 <= status < 400:
        raise UpstreamRedirect
