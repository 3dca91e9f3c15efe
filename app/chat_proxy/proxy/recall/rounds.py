"""Answer the model's calls of the recall tool and ask it again; the client sees one answer."""

import time
from dataclasses import replace
from functools import partial

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.compaction.recall.recallable import NO_ROOM
from chat_proxy.compaction.recall.references import TOOL_NAME
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.forwarding.refusals import TooLong
from chat_proxy.proxy.forwarding.relay_chat import RelayChat
from chat_proxy.proxy.forwarding.send import Forwarding, call_of, send_and_relay
from chat_proxy.proxy.recall.recall import Recall, RecallServices
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.session.output import recalls
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.wires.body import continued_body, without_tool
from chat_proxy.wires.own_calls.edit import Round
from chat_proxy.wires.usage import Usage


def start_recall(
    client: ChatRequest,
    compaction: CompactionRequest,
    result: CompactionResult,
    context: RequestContext,
    services: RecallServices,
) -> Recall | None:
    """Expect questions in the answer to a request if it offers the tool; None if it does not."""
    if not recalls(compaction, result):
        context.edits, context.before_end = (), None
        return None
    edit = context.wire.own_calls(TOOL_NAME)
    recall = Recall(client, compaction, result, edit, context.record, services)
    context.edits, context.before_end = (edit,), recall.finish
    return recall


async def answer_recalls(
    recall: Recall, body: bytes, context: RequestContext, forwarding: Forwarding
) -> None:
    """Answer calls until the model has given its answer, at most so often as its policy allows."""
    record, most = context.record, recall.compaction.policy.recall.max_rounds
    ends = record.called + forwarding.policy.total_seconds
    total = Usage(record.prompt_tokens, record.completion_tokens, record.cached_tokens)
    while recall.edit.goes_on:
        texts = await recall.answer()
        is_last = len(recall.rounds) + 1 >= most
        forwarding = _until(ends, forwarding)
        record.set_usage(0, 0, 0)
        context.observe(None)
        try:
            sent = await _send_round(recall, body, texts, context, forwarding, is_last=is_last)
        finally:
            total = Usage(
                total.prompt_tokens + record.prompt_tokens,
                total.completion_tokens + record.completion_tokens,
                total.cached_tokens + record.cached_tokens,
            )
            record.set_usage(*total)
        if sent is None:
            return
        body = sent


def _until(ends: float, forwarding: Forwarding) -> Forwarding:
    """Return what sends a round within the time that is left for the whole answer."""
    left = max(0.0, ends - time.perf_counter())
    return replace(forwarding, policy=replace(forwarding.policy, total_seconds=left))


async def _send_round(
    recall: Recall,
    body: bytes,
    texts: list[str],
    context: RequestContext,
    forwarding: Forwarding,
    *,
    is_last: bool,
) -> bytes | None:
    """Send the results and relay what follows; return the body that was sent.

    Results that make the prompt too long are replaced by a word that there is no room for them.
    Returns None if the client got the upstream's refusal.
    """
    edit, wire, route = recall.edit, context.wire, recall.compaction.route
    said, shown = edit.said(), edit.shown
    results = [edit.results(texts), edit.results([NO_ROOM] * len(texts))]
    changed = recall.lowered_output()
    if is_last:
        changed |= without_tool(wire, body, TOOL_NAME)
    edit.next_round()
    edit.may_go_on = not is_last
    for attempt, items in enumerate(results):
        write = partial(continued_body, wire, body, [*said, *items], changed)
        sent = await run_inline_or_in_thread(write, len(body))
        relay = RelayChat(context, forwarding.policy, holds_overflows=True, sent=sent)
        recall.rounds.append(Round([*said, *items], shown))
        try:
            await send_and_relay(
                call_of(wire.path, sent, route, context), relay, context, forwarding
            )
        except TooLong as too_long:
            recall.rounds.pop()
            if attempt:
                await relay.send_refusal(too_long)
        else:
            return sent
    return None
