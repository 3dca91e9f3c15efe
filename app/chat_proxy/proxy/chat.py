"""The journey of a chat request, top to bottom.

    route    find the model: its card, upstream and policy
    contract do what the client asks of the server (`context_management`), unless the upstream does
    command  `/compact` is answered by the proxy itself
    measure  count the tokens, find the context window, make the budget
    trim     run the stages that look at single messages or media
    decide   repeat what was decided about this history, compact anew when it is due
    apply    write the changed body; unchanged messages keep their bytes
    send     call the upstream and relay its answer as it arrives
    recall   answer the model's own questions for earlier messages, and ask it again
    replay   a request that is refused as too long, or truncated silently, is sent again, smaller
    learn    compare our count with the upstream's
    record   everything above is written to the request's record

Features fail open: a request that cannot be prepared is sent unchanged.
"""

from functools import partial

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.compaction.recall.policy import TOOL_TOKENS
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.compacting.decide import decide, nothing_to_do
from chat_proxy.proxy.compacting.trim import trim
from chat_proxy.proxy.contracts.answer import answer_or_take_over, send_compaction
from chat_proxy.proxy.contracts.apply import outcome_of, under_contract
from chat_proxy.proxy.contracts.take_over import contract_in
from chat_proxy.proxy.forwarding.overflow_replay import Sent, learn_from_success
from chat_proxy.proxy.forwarding.silent_truncation import sent_prompt
from chat_proxy.proxy.forwarding.sse_keepalive import SseKeepalive
from chat_proxy.proxy.manual.command import Command, command_in
from chat_proxy.proxy.manual.command_reply import run_command, send_reply
from chat_proxy.proxy.outgoing import OutgoingRequest, learn, send_until_it_fits
from chat_proxy.proxy.recall.restore import Restoring
from chat_proxy.proxy.recall.rounds import answer_recalls, start_recall
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
from chat_proxy.proxy.session.request import CompactionRequest
from chat_proxy.proxy.sizing.measure import measure
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.wires.body import has_stored_history


async def answer(
    request: ChatRequest, route: ModelRoute, context: RequestContext, services: Services
) -> None:
    """Take a chat request through its whole journey."""
    record = context.record
    record.model = route.model
    record.upstream = route.base_url
    record.streams = request.streams
    contract = contract_in(request, context.headers) if record.mode == "on" else None
    if contract is not None:
        ours = await answer_or_take_over(request, contract, route, context, services.contracts)
        if ours is None:
            return
        request = ours
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
    if context.contract is not None and context.contract.pauses and context.done.sealed:
        await send_compaction(request, context)
        return
    outgoing = await send_until_it_fits(outgoing, route, context, services)
    if outgoing.recall is not None:
        await answer_recalls(outgoing.recall, outgoing.body, context, services.forwarding)
    if outgoing.prompt is not None and not record.recall_rounds:
        learn(outgoing.prompt, route, record, services)
    if outgoing.sent is not None and record.status == 200:
        learn_from_success(outgoing.sent, services.sizing)


async def answer_command(
    command: Command, route: ModelRoute, context: RequestContext, services: Services
) -> None:
    """Answer a command in the model's place."""
    async with SseKeepalive(context, route.policy.summary.keep_alive_seconds):
        done = await run_command(command, route, context, services.sizing, services.compaction)
    context.record.chat = RecordedChat(done.compaction, done.result)
    await send_reply(command.request, done.reply, context)


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
    client = request
    observes = record.mode == "observe"
    if not observes and route.policy.recall.enabled:
        restoring = Restoring(services.recall.exchanges, services.limits)
        request = await restoring.restored(request, route, caller.tenant)
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
    compaction = CompactionRequest(
        request,
        measured,
        route,
        caller.tenant,
        credentials,
        record.request_id,
        observes,
        record.span,
    )
    compaction = under_contract(compaction, context.contract)
    may_replay = route.policy.replays and not observes
    if nothing_to_do(compaction, services.compaction.checkpoints):
        record.chat = RecordedChat(compaction, None)
        prompt = sent_prompt(compaction, measured.counted)
        return OutgoingRequest(
            request.body, prompt, None, compaction if may_replay else None, client=client
        )
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
    recall = start_recall(client, compaction, result, context, services.recall)
    prompt = sent_prompt(compaction, result.counted, TOOL_TOKENS if recall else 0)
    store = services.contracts.store
    context.done = await outcome_of(context.contract, compaction, result, body, store)
    if not may_replay:
        return OutgoingRequest(body, prompt, recall)
    sent = Sent(compaction, result, body)
    return OutgoingRequest(body, prompt, recall, compaction, sent, client)
