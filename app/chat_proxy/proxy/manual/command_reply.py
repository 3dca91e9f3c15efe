"""The proxy's own reply to a command, in the form of a model's answer, whole or streamed."""

import time
from typing import NamedTuple

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.compaction.summary.commands import COMPLETE, FAILED
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.manual.command import Command
from chat_proxy.proxy.manual.compact import (
    ManualOptions,
    ManualResult,
    compact_manually,
    record_manual,
)
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult, counted_request
from chat_proxy.proxy.sizing.measure import Sizing
from chat_proxy.wires.answers import Reply

COMPACT = "/compact"
NOTHING_LOST = "Nothing was changed or lost; you can go on, or try again later."


class CommandOutcome(NamedTuple):
    """The reply to a command, and what was done to the conversation before it."""

    reply: str
    compaction: CompactionRequest
    result: CompactionResult | None


async def run_command(
    command: Command,
    route: ModelRoute,
    context: RequestContext,
    sizing: Sizing,
    services: CompactionServices,
) -> CommandOutcome:
    """Compact the conversation before a command."""
    record = context.record
    compaction = await counted_request(
        command.before, route, context.caller, record.request_id, sizing
    )
    compaction = compaction._replace(span=record.span)
    options = ManualOptions(instruction=command.instruction)
    done = await compact_manually(compaction, services, options)
    record_manual(record, done, compaction)
    record.command = COMPACT
    return CommandOutcome(reply_text(done), compaction, done.result)


def reply_text(done: ManualResult) -> str:
    """Return the result of a compaction as the user reads it."""
    if done.has_failed:
        return f"{FAILED} {done.note} {NOTHING_LOST}"
    if done.checkpoint is None:
        return done.note
    count = done.messages_compacted
    figures = (
        f"{count:,} message{'' if count == 1 else 's'} compacted, "
        f"{done.tokens_before:,} → {done.tokens_after:,} tokens."
    )
    return "\n\n".join(filter(None, (COMPLETE, figures, done.note, done.summary)))


async def send_reply(request: ChatRequest, text: str, context: RequestContext) -> None:
    """Send the reply whole or as a stream, which keep-alive comments may have begun."""
    record = context.record
    form = context.wire.answers
    options = request.fields.get("stream_options")
    wants_usage = type(options) is dict and options.get("include_usage") is True
    reply = Reply(text, request.model, record.request_id, int(time.time()), wants_usage)
    body = form.streamed_reply(reply) if request.streams else form.whole_reply(reply)
    await send_own_answer(body, context, streams=request.streams)


async def send_own_answer(body: bytes, context: RequestContext, *, streams: bool) -> None:
    """Send an answer of the proxy's own, whole or as a stream."""
    sink, record = context.sink, context.record
    kind = b"text/event-stream; charset=utf-8" if streams else b"application/json"
    record.status = 200
    record.bytes_out = len(body)
    if sink.started:
        await sink.end(body)
        return
    headers = [
        (b"content-type", kind),
        (b"cache-control", b"no-cache"),
        *record.response_headers(),
    ]
    await sink.answer(200, headers, body)
