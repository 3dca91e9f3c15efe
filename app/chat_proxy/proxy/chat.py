"""The journey of a chat request, top to bottom.

    route    find the model: its card, upstream and policy
    command  `/compact` is answered by the proxy itself
    measure  count the tokens, find the context window, make the budget
    trim     run the stages that look at single messages or media
    decide   repeat what was decided about this history, compact anew when it is due
    apply    write the changed body; unchanged messages keep their bytes
    send     call the upstream and relay its answer as it arrives
    replay   a request that is refused as too long, or truncated silently, is sent again, smaller
    learn    compare our count with the upstream's
    record   everything above is written to the request's record

Features fail open: a request that cannot be prepared is sent unchanged.
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.errors import UpstreamError
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.compacting.decide import decide, nothing_to_do
from chat_proxy.proxy.compacting.trim import trim
from chat_proxy.proxy.forwarding.overflow_replay import (
    Sent,
    learn_from,
    learn_from_success,
    refused_without_limit,
    smaller,
)
from chat_proxy.proxy.forwarding.refusals import TooLong, TruncatedPrompt
from chat_proxy.proxy.forwarding.relay_chat import RelayChat
from chat_proxy.proxy.forwarding.send import call_of, send_again, send_and_relay
from chat_proxy.proxy.forwarding.silent_truncation import (
    SentPrompt,
    learn_truncation,
    sent_prompt,
    truncation_of,
)
from chat_proxy.proxy.forwarding.sse_keepalive import SseKeepalive
from chat_proxy.proxy.manual.command import Command, command_in
from chat_proxy.proxy.manual.command_reply import run_command, send_reply
from chat_proxy.proxy.reporting.chat_detail import RecordedChat
from chat_proxy.proxy.reporting.record_outcome import (
    STORED_HISTORY,
    UNKNOWN_SHAPE,
    UNKNOWN_WINDOW,
    record_result,
    record_size,
)
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.output import body_to_send, with_fitting_output
from chat_proxy.proxy.session.request import (
    CompactionRequest,
    unchanged_result,
)
from chat_proxy.proxy.sizing.measure import measure
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.wires.body import has_stored_history
from chat_proxy.wires.usage import Usage


class OutgoingRequest(NamedTuple):
    """The body that is sent upstream, and its tokens if they were counted."""

    body: bytes
    prompt: SentPrompt | None = None
    compaction: CompactionRequest | None = None
    """What a replay makes smaller; None if the request must not be replayed."""
    sent: Sent | None = None
    """How it differs from the client's request; None if it does not."""


class HeldAnswer(NamedTuple):
    """The answer to a truncated prompt, sent to the client if no better one can be had."""

    answer: TruncatedPrompt
    outgoing: OutgoingRequest
    record: RequestRecord
    """A copy of the request's record as it was then."""


async def answer(
    request: ChatRequest, route: ModelRoute, context: RequestContext, services: Services
) -> None:
    """Take a chat request through its whole journey."""
    record = context.record
    record.model = route.model
    record.upstream = route.base_url
    record.streams = request.streams
    if services.policy.answers_commands and record.mode == "on":
        command = command_in(request)
        if command is not None:
            await answer_command(command, route, context, services)
            return
    if record.mode == "off":
        outgoing = OutgoingRequest(request.body)
    elif record.streams:
        async with SseKeepalive(context, route.policy.summary.keep_alive_seconds):
            outgoing = await prepare_or_fail_open(request, route, context, services)
    else:
        outgoing = await prepare_or_fail_open(request, route, context, services)
    outgoing = await send_until_it_fits(outgoing, route, context, services)
    if outgoing.prompt is not None:
        learn(outgoing.prompt, route, record, services)
    if outgoing.sent is not None and record.status == 200:
        learn_from_success(outgoing.sent, services.sizing)


async def answer_command(
    command: Command, route: ModelRoute, context: RequestContext, services: Services
) -> None:
    """Answer a command in the model's place."""
    async with SseKeepalive(context, route.policy.summary.keep_alive_seconds):
        reply = await run_command(command, route, context, services.sizing, services.compaction)
    await send_reply(command.request, reply, context)


async def prepare_or_fail_open(
    request: ChatRequest, route: ModelRoute, context: RequestContext, services: Services
) -> OutgoingRequest:
    """Prepare a request; one that cannot be prepared is sent unchanged."""
    try:
        return await prepare(request, route, context, services)
    except Exception as error:  # noqa: BLE001 - features fail open
        log_exception("request could not be prepared", error)
        context.record.compaction = "failed-open"
        context.record.explain("The proxy made a mistake and sent the request unchanged.")
        return OutgoingRequest(request.body)


async def prepare(
    request: ChatRequest, route: ModelRoute, context: RequestContext, services: Services
) -> OutgoingRequest:
    """Measure, trim and compact a request; in observe mode only record what would be done."""
    record, caller = context.record, context.caller
    if has_stored_history(request):
        # Nobody but the upstream knows the whole history: what cannot be seen is never guessed.
        services.metrics.skipped.labels("stored_history").inc()
        record.compaction = "off"
        record.explain(STORED_HISTORY, warns=False)
        return OutgoingRequest(request.body)
    credentials = route.credentials_for(caller)
    measured = await measure(request, route, credentials, services.sizing)
    if measured is None:
        services.metrics.skipped.labels("shape").inc()
        record.explain(UNKNOWN_SHAPE)
        return OutgoingRequest(request.body)
    record_size(record, measured)
    services.engine_counts.ask_later(request, route, measured, credentials)
    if measured.window is None:
        services.metrics.skipped.labels("window").inc()
        record.explain(UNKNOWN_WINDOW)
    observes = record.mode == "observe"
    compaction = CompactionRequest(
        request, measured, route, caller.tenant, credentials, record.request_id, observes
    )
    may_replay = route.policy.replays and not observes
    if nothing_to_do(compaction, services.compaction.checkpoints):
        record.chat = RecordedChat(compaction, None)
        prompt = sent_prompt(compaction, measured.counted)
        return OutgoingRequest(request.body, prompt, compaction if may_replay else None)
    trimmed = await trim(compaction, services.compaction)
    result = await decide(compaction, trimmed, services.compaction)
    result = with_fitting_output(compaction, result)
    record_result(record, result)
    if result.unfit:
        services.metrics.skipped.labels("unfit").inc()
    record.chat = RecordedChat(compaction, result)
    if observes:
        return OutgoingRequest(request.body, sent_prompt(compaction, measured.counted))
    write = partial(body_to_send, compaction, result)
    body = await run_inline_or_in_thread(write, len(request.body))
    prompt = sent_prompt(compaction, result.counted)
    if not may_replay:
        return OutgoingRequest(body, prompt)
    return OutgoingRequest(body, prompt, compaction, Sent(compaction, result, body))


async def send_until_it_fits(
    outgoing: OutgoingRequest, route: ModelRoute, context: RequestContext, services: Services
) -> OutgoingRequest:
    """Send a request and relay its answer; one that is too long is sent again, smaller.

    Without a smaller form the client gets the upstream's own refusal, or its answer to the
    truncated prompt. Returns the request whose answer the client got.
    """
    forwarding = services.forwarding
    held: HeldAnswer | None = None
    while True:
        call = call_of(context.wire.path, outgoing.body, route, context)
        relay = RelayChat(
            context,
            forwarding.policy,
            holds_overflows=outgoing.compaction is not None,
            prompt=outgoing.prompt,
            needs_success=held is not None,
            sent=outgoing.body,
        )
        try:
            send = send_again if held else send_and_relay
            await send(call, relay, context, forwarding)
        except TruncatedPrompt as truncated:
            refusal: TooLong | None = truncated
            held = HeldAnswer(truncated, outgoing, replace(context.record))
        except TooLong as too_long:
            refusal = too_long
        except UpstreamError:
            if held is None or context.sink.started:
                raise
            refusal = None
        else:
            return outgoing
        async with SseKeepalive(context, route.policy.summary.keep_alive_seconds):
            again = await replay(outgoing, refusal, context, services) if refusal else None
        if again is not None:
            outgoing = again
        elif held is not None:
            context.record.take_back(held.record)
            await relay.send_refusal(held.answer)
            return held.outgoing
        elif refusal is not None:
            await relay.send_refusal(refusal)
            return outgoing


async def replay(
    outgoing: OutgoingRequest, refusal: TooLong, context: RequestContext, services: Services
) -> OutgoingRequest | None:
    """Return a smaller form of a request that the upstream calls too long; None without one."""
    compaction, record = outgoing.compaction, context.record
    if compaction is None:
        return None
    before = outgoing.sent or Sent(compaction, unchanged_result(compaction), outgoing.body)
    try:
        if isinstance(refusal, TruncatedPrompt):
            learn_truncation(refusal.truncation, compaction.route, services.sizing)
        else:
            await learn_from(before, refusal.overflow, services.sizing)
        sent = await smaller(before, refusal.overflow, services.compaction)
        refused = await refused_without_limit(before, refusal.overflow)
    except Exception as error:  # noqa: BLE001 - features fail open: the client gets the refusal
        log_exception("request could not be made smaller", error)
        return None
    count_replay(services.metrics, refusal, is_sent=sent is not None)
    if sent is None:
        return None
    record_result(record, sent.outcome)
    record.replays = sent.replays
    record.chat = RecordedChat(sent.compaction, sent.outcome)
    prompt = sent_prompt(compaction, sent.outcome.counted)
    sent = sent._replace(refused=refused)
    return OutgoingRequest(sent.body, prompt, sent.compaction, sent)


def count_replay(metrics: Metrics, refusal: TooLong, *, is_sent: bool) -> None:
    """Count whether there was a smaller form; `learn` counts truncated prompts without one."""
    if not isinstance(refusal, TruncatedPrompt):
        metrics.replays.labels("sent" if is_sent else "exhausted").inc()
    elif is_sent:
        metrics.silent_truncations.labels("replayed").inc()


def learn(prompt: SentPrompt, route: ModelRoute, record: RequestRecord, services: Services) -> None:
    """Compare our count with the upstream's own: it corrects estimates, or shows the window."""
    if record.status != 200 or record.prompt_tokens <= 0:
        return
    usage = Usage(record.prompt_tokens, record.completion_tokens, record.cached_tokens)
    truncation = truncation_of(prompt, usage)
    if truncation is None:
        counts = (usage.prompt_tokens, usage.cached_tokens)
        services.sizing.calibrations.learn(route.base_url, route.model, prompt.counted, counts)
        return
    services.metrics.silent_truncations.labels("relayed").inc()
    learn_truncation(truncation, route, services.sizing)
