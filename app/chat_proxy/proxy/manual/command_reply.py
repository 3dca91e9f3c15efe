"""The proxy's own reply to a command, in the form of a model's answer, whole or streamed."""

import time
from collections.abc import Iterator
from typing import Any

from chat_proxy.chat.body.json_writer import serialise
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
from chat_proxy.proxy.session.request import counted_request
from chat_proxy.proxy.sizing.measure import Sizing

NOTHING_LOST = "Nothing was changed or lost; you can go on, or try again later."
DONE = b"data: [DONE]\n\n"
# No model wrote this answer. A summary's cost is not part of any client's usage; it is in the
# metrics of side-queries.
NO_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


async def run_command(
    command: Command,
    route: ModelRoute,
    context: RequestContext,
    sizing: Sizing,
    services: CompactionServices,
) -> str:
    """Compact the conversation before a command; return the reply to the user."""
    record = context.record
    compaction = await counted_request(
        command.before, route, context.caller, record.request_id, sizing
    )
    options = ManualOptions(instruction=command.instruction)
    done = await compact_manually(compaction, services, options)
    record_manual(record, done, len(compaction.conversation))
    return reply_text(done)


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
    sink, record = context.sink, context.record
    head = {
        "id": f"chatcmpl-{record.request_id}",
        "created": int(time.time()),
        "model": request.model,
    }
    body = streamed(head, text, request) if request.streams else whole(head, text)
    form = b"text/event-stream; charset=utf-8" if request.streams else b"application/json"
    record.status = 200
    record.bytes_out = len(body)
    if sink.started:
        await sink.end(body)
        return
    headers = [
        (b"content-type", form),
        (b"cache-control", b"no-cache"),
        *record.response_headers(),
    ]
    await sink.answer(200, headers, body)


def whole(head: dict[str, Any], text: str) -> bytes:
    """Return the reply as one JSON document."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return serialise({**head, "object": "chat.completion", "choices": [choice], "usage": NO_USAGE})


def streamed(head: dict[str, Any], text: str, request: ChatRequest) -> bytes:
    """Return the reply as server-sent events, with usage if the client asks for it."""
    options = request.fields.get("stream_options")
    counts = type(options) is dict and options.get("include_usage") is True
    chunk = {**head, "object": "chat.completion.chunk", **({"usage": None} if counts else {})}
    return b"".join(events(chunk, text, counts=counts))


def events(chunk: dict[str, Any], text: str, *, counts: bool) -> Iterator[bytes]:
    """Yield the events of a stream: role, content, end."""
    start = {"role": "assistant", "content": ""}
    for delta, reason in ((start, None), ({"content": text}, None), ({}, "stop")):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        yield event({**chunk, "choices": [choice]})
    if counts:
        yield event({**chunk, "choices": [], "usage": NO_USAGE})
    yield DONE


def event(document: dict[str, Any]) -> bytes:
    """Return a document as a server-sent event."""
    return b"data: " + serialise(document) + b"\n\n"
