"""The request that is sent: again and smaller until it fits, and what its answer teaches."""

from dataclasses import replace
from typing import NamedTuple

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.compaction.recall.policy import TOOL_TOKENS
from chat_proxy.errors import UpstreamError
from chat_proxy.proxy.contracts.answer import ContractRefused, accepted_body, relay_class
from chat_proxy.proxy.contracts.apply import outcome_of
from chat_proxy.proxy.forwarding.overflow_replay import (
    Sent,
    count_replay,
    learn_from,
    refused_without_limit,
    smaller,
)
from chat_proxy.proxy.forwarding.refusals import TooLong, TruncatedPrompt
from chat_proxy.proxy.forwarding.send import call_of, send_again, send_and_relay
from chat_proxy.proxy.forwarding.silent_truncation import (
    SentPrompt,
    learn_truncation,
    sent_prompt,
    truncation_of,
)
from chat_proxy.proxy.forwarding.sse_keepalive import SseKeepalive
from chat_proxy.proxy.recall.recall import Recall
from chat_proxy.proxy.recall.rounds import start_recall
from chat_proxy.proxy.reporting.chat_detail import RecordedChat
from chat_proxy.proxy.reporting.record_outcome import record_result
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.request import CompactionRequest, unchanged_result
from chat_proxy.proxy.sizing.calibrations import Counted
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.wires.usage import Usage


class OutgoingRequest(NamedTuple):
    """The body that is sent upstream, and its tokens if they were counted."""

    body: bytes
    prompt: SentPrompt | None = None
    recall: Recall | None = None
    """How the model's questions for earlier messages are answered; None if it cannot ask."""
    compaction: CompactionRequest | None = None
    """What a replay makes smaller; None if the request must not be replayed."""
    sent: Sent | None = None
    """How it differs from the client's request; None if it does not."""
    client: ChatRequest | None = None
    """The request as the client sent it, if a replay may need it."""


class HeldAnswer(NamedTuple):
    """The answer to a truncated prompt, sent to the client if no better one can be had."""

    answer: TruncatedPrompt
    outgoing: OutgoingRequest
    record: RequestRecord
    """A copy of the request's record as it was then."""


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
        body = await accepted_body(outgoing.body, route, context, services.contracts)
        call = call_of(context.wire.path, body, route, context)
        relay = relay_class(body, outgoing.body, context)(
            context,
            forwarding.policy,
            holds_overflows=outgoing.compaction is not None,
            prompt=outgoing.prompt,
            needs_success=held is not None,
            sent=body,
        )
        try:
            send = send_again if held else send_and_relay
            await send(call, relay, context, forwarding)
        except TruncatedPrompt as truncated:
            refusal: TooLong | None = truncated
            held = HeldAnswer(truncated, outgoing, replace(context.record))
        except TooLong as too_long:
            refusal = too_long
        except ContractRefused:
            services.contracts.refusals.add(context.caller.tenant, route, context.wire)
            continue
        except UpstreamError:
            if held is None or context.sink.started:
                raise
            refusal = None
        else:
            return outgoing._replace(body=body)
        async with SseKeepalive(context, route.policy.summary.keep_alive_seconds):
            again = await replay(outgoing, refusal, context, services) if refusal else None
        if again is not None:
            outgoing = again
        elif held is not None:
            context.record.take_back(held.record)
            await relay.send_refusal(without_calls(held.answer, held.outgoing.recall))
            return held.outgoing
        elif refusal is not None:
            await relay.send_refusal(refusal)
            return outgoing


def without_calls(answer: TruncatedPrompt, recall: Recall | None) -> TruncatedPrompt:
    """Return the answer to a truncated prompt without calls of the recall tool: it is the last."""
    if recall is not None:
        recall.edit.may_go_on = False
        answer.body = recall.edit.whole(answer.body)
    return answer


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
    client = outgoing.client or compaction.request
    recall = start_recall(client, sent.compaction, sent.outcome, context, services.recall)
    prompt = sent_prompt(compaction, sent.outcome.counted, TOOL_TOKENS if recall else 0)
    store = services.contracts.store
    context.done = await outcome_of(
        context.contract, sent.compaction, sent.outcome, sent.body, store
    )
    sent = sent._replace(refused=refused)
    return OutgoingRequest(sent.body, prompt, recall, sent.compaction, sent, outgoing.client)


def learn(prompt: SentPrompt, route: ModelRoute, record: RequestRecord, services: Services) -> None:
    """Compare our count with the upstream's own: it corrects estimates, or shows the window."""
    if record.status != 200 or record.prompt_tokens <= 0:
        return
    usage = Usage(record.prompt_tokens, record.completion_tokens, record.cached_tokens)
    truncation = truncation_of(prompt, usage)
    if truncation is None:
        counts = (usage.prompt_tokens, usage.cached_tokens)
        counted = Counted(prompt.counted, prompt.calibration)
        services.sizing.calibrations.learn((route.base_url, route.model), counted, counts)
        return
    services.metrics.silent_truncations.labels("relayed").inc()
    learn_truncation(truncation, route, services.sizing)
