"""`POST /v1/chat/compact`: a conversation folded by hand, for the client to go on with."""

from typing import Any

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.body.splice import dumped, written_messages
from chat_proxy.errors import InvalidValue, SummaryNotWritten
from chat_proxy.proxy.manual.compact import (
    KEPT_TURNS,
    ManualOptions,
    ManualResult,
    compact_manually,
    record_manual,
)
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.request import CompactionRequest, counted_request, references
from chat_proxy.routes.chat import refuse_forms
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import request_in


class Compact:
    """Compacts conversations by hand, in every mode: whoever asks for it wants it."""

    route = "/v1/chat/compact"
    methods = frozenset({"POST"})

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Compact one conversation."""
        services, record = self._services, context.record
        refuse_forms(context.values)
        record.phase = "body"
        body = await client.read_body(services.policy.max_body_bytes, services.admission)
        record.bytes_in = len(body)
        request = await request_in(body, services.limits)
        await client.watch(context, self._answer(request, context, client))

    async def _answer(
        self, request: ChatRequest, context: RequestContext, client: AsgiClient
    ) -> None:
        record = context.record
        record.model = required_model(request)
        wish = wish_in(request)
        compaction = await counted_request(
            request, context.caller, record.request_id, self._services
        )
        done = await compact_manually(compaction, self._services, wish)
        record_manual(record, done, len(compaction.conversation))
        if done.has_failed:
            raise SummaryNotWritten(f"No summary was written: {done.note} Nothing was changed.")
        body = document_of(compaction, done)
        record.status = 200
        record.bytes_out = len(body)
        headers = [(b"content-type", b"application/json"), *record.response_headers()]
        await client.answer(200, headers, body)


def required_model(request: ChatRequest) -> str:
    """Return the model's name, or raise InvalidValue; nobody else would complain about it."""
    if not request.model:
        raise InvalidValue("model must be the name of a model.", param="model")
    return request.model


def wish_in(request: ChatRequest) -> ManualOptions:
    """Return what the client wishes for, or raise InvalidValue."""
    keep, instruction = request.fields.get("keep"), request.fields.get("instruction")
    if keep is not None and (type(keep) is not int or keep < 1):
        raise InvalidValue("keep must be a number of turns, at least 1.", param="keep")
    if instruction is not None and type(instruction) is not str:
        raise InvalidValue("instruction must be a text.", param="instruction")
    if request.fields.get("messages") == []:
        raise InvalidValue("messages must not be empty.", param="messages")
    return ManualOptions(keep or KEPT_TURNS, (instruction or "").strip())


def document_of(compaction: CompactionRequest, done: ManualResult) -> bytes:
    """Return the answer; messages that stay keep their bytes."""
    request = compaction.request
    messages = written_messages(
        request.body, references(compaction, done.conversation), request.fields
    )
    return b'{"messages":' + messages + b"," + dumped(figures_of(done))[1:]


def figures_of(done: ManualResult) -> dict[str, Any]:
    """Return the summary and what it won."""
    return {
        "summary": done.summary,
        "messages_compacted": done.messages_compacted,
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
        "checkpoint": {"covered": done.covered},
        **({"note": done.note} if done.note else {}),
    }
