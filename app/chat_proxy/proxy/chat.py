"""Make a chat request ready to be sent: measured, compacted, noted; or as it came."""

from typing import NamedTuple

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.proxy.compacting.compact import compact, nothing_to_do
from chat_proxy.proxy.forwarding.overflow_replay import Sent, learn_from, smaller
from chat_proxy.proxy.forwarding.relay import RelayChat, TooLong
from chat_proxy.proxy.forwarding.send import call_of, send_and_relay
from chat_proxy.proxy.lifecycle.sse_keepalive import SseKeepalive
from chat_proxy.proxy.manual.command import command_in
from chat_proxy.proxy.manual.command_reply import answer_command
from chat_proxy.proxy.reporting.chat_detail import record_detail
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.request import (
    CompactionRequest,
    CompactionResult,
    body_of,
    unchanged_result,
)
from chat_proxy.proxy.sizing.measure import Measured, measure, measure_at_once
from chat_proxy.telemetry.logs import WARNING, log, log_exception
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.upstream.overflow import Overflow


class OutgoingRequest(NamedTuple):
    """What is sent upstream, and its tokens if they were counted."""

    body: bytes
    counted: RequestCount | None = None
    compaction: CompactionRequest | None = None
    """What a replay can make smaller, if it may."""
    sent: Sent | None = None
    """How it is sent, if it is not as it came."""


async def prepared_or_not(
    request: ChatRequest, to: ModelRoute, context: RequestContext, services: Services
) -> OutgoingRequest:
    """Prepare a request; one that cannot be prepared goes on as it is."""
    try:
        return await prepared(request, to, context, services)
    except Exception as error:  # noqa: BLE001 - features fail open
        log_exception("request could not be prepared", error)
        context.record.compaction = "failed-open"
        return OutgoingRequest(request.body)


async def prepared(
    request: ChatRequest, to: ModelRoute, context: RequestContext, services: Services
) -> OutgoingRequest:
    """Measure and compact a request; in observe mode only note what would have been done."""
    record = context.record
    credentials = services.destinations.credentials_for(to.card, context.caller)
    measured = measure_at_once(request, to, services)
    if measured is None:
        measured = await measure(request, to, credentials, services)
    if measured is None:
        services.metrics.skipped.labels("shape").inc()
        return OutgoingRequest(request.body)
    note_size(record, measured)
    if measured.window is None:
        services.metrics.skipped.labels("window").inc()
    observes = record.mode == "observe"
    tenant = context.caller.tenant
    compaction = CompactionRequest(
        request, measured, to, tenant, credentials, record.request_id, observes
    )
    replays = to.policy.replays and not observes
    if nothing_to_do(compaction, services):
        record_detail(compaction, None, record, services)
        return OutgoingRequest(request.body, measured.counted, compaction if replays else None)
    outcome = await compact(compaction, services)
    note_outcome(record, outcome)
    record_detail(compaction, outcome, record, services)
    if observes:
        return OutgoingRequest(request.body, measured.counted)
    body = body_of(compaction, outcome.conversation)
    if not replays:
        return OutgoingRequest(body, outcome.counted)
    return OutgoingRequest(body, outcome.counted, compaction, Sent(compaction, outcome, body))


async def replayed_or_not(
    prepared: OutgoingRequest, overflow: Overflow, context: RequestContext, services: Services
) -> OutgoingRequest | None:
    """Prepare a request again that the upstream calls too long; None if it cannot be smaller."""
    compaction = prepared.compaction
    if compaction is None:
        return None
    before = prepared.sent or Sent(compaction, unchanged_result(compaction), prepared.body)
    try:
        await learn_from(before, overflow, services)
        sent = await smaller(before, overflow, services)
    except Exception as error:  # noqa: BLE001 - features fail open
        log_exception("request could not be made smaller", error)
        return None
    if sent is None:
        services.metrics.replays.labels("exhausted").inc()
        return None
    services.metrics.replays.labels("sent").inc()
    note_outcome(context.record, sent.outcome)
    context.record.replays = sent.replays
    record_detail(sent.compaction, sent.outcome, context.record, services)
    return OutgoingRequest(sent.body, sent.outcome.counted, sent.compaction, sent)


def note_size(record: RequestRecord, measured: Measured) -> None:
    """Write down how large the request is."""
    record.tokens_before = record.tokens_after = measured.tokens
    record.messages_before = record.messages_after = len(measured.conversation)
    if measured.window is not None:
        record.window = measured.window.tokens
        record.window_source = measured.window.source


def note_outcome(record: RequestRecord, outcome: CompactionResult) -> None:
    """Write down what became of the request, and say what a stage wants said."""
    record.compaction = outcome.label
    record.stages = outcome.stages
    record.failed_stages = tuple([failure.stage for failure in outcome.failures])
    record.is_break = outcome.is_break
    record.messages_after = len(outcome.conversation)
    record.tokens_after = outcome.token_count.tokens
    for notice in outcome.notices:
        log(notice, request_id=record.request_id, mode=record.mode)
    for failure in outcome.failures:
        log(
            "a stage failed and was passed by",
            WARNING,
            request_id=record.request_id,
            stage=failure.stage,
            exception=type(failure.error).__name__,
        )


async def answer(
    request: ChatRequest, to: ModelRoute, context: RequestContext, services: Services
) -> None:
    """Take a chat request through its whole journey."""
    record = context.record
    record.model = to.model
    record.streams = request.streams
    commands = services.policy.answers_commands and record.mode == "on"
    if commands and (command := command_in(request)) is not None:
        await answer_command(command, to, context, services)
        return
    prepared = await prepared_in_step(request, to, context, services)
    record.prepared()
    prepared = await send_until_it_fits(prepared, to, context, services)
    if prepared.counted is not None:
        learn(prepared.counted, to, record, services)


async def prepared_in_step(
    request: ChatRequest, to: ModelRoute, context: RequestContext, services: Services
) -> OutgoingRequest:
    """Prepare a request among those that came with it: all count, and then all send."""
    if context.record.mode == "off":
        return OutgoingRequest(request.body)
    await services.upstream.write_batch.step()
    if context.record.streams:
        async with SseKeepalive(context, to.policy.summary.keep_alive_seconds):
            prepared = await prepared_or_not(request, to, context, services)
    else:
        prepared = await prepared_or_not(request, to, context, services)
    await services.upstream.write_batch.step()
    return prepared


async def send_until_it_fits(
    prepared: OutgoingRequest, to: ModelRoute, context: RequestContext, services: Services
) -> OutgoingRequest:
    """Send a request and relay its answer; one that is too long is sent again, smaller.

    Without a smaller form the client gets the upstream's own refusal. Returns what was sent last.
    """
    while True:
        call = call_of(context, services, to.card, "/chat/completions", prepared.body)
        relay = RelayChat(context, services.policy, holds_overflows=prepared.compaction is not None)
        try:
            await send_and_relay(call, relay, context, services)
        except TooLong as too_long:
            refusal = too_long
        else:
            return prepared
        async with SseKeepalive(context, to.policy.summary.keep_alive_seconds):
            again = await replayed_or_not(prepared, refusal.overflow, context, services)
        if again is None:
            await relay.pass_on(refusal)
            return prepared
        prepared = again


def learn(count: RequestCount, to: ModelRoute, record: RequestRecord, services: Services) -> None:
    """Compare the estimate with the upstream's own count, for the next request's sake."""
    if record.status == 200 and record.prompt_tokens > 0:
        usage = (record.prompt_tokens, record.cached_tokens)
        services.calibrations.learn(to.base_url, to.model, count, usage)
