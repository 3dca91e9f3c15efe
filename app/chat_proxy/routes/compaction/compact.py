"""`POST /v1/chat/compact`: compact a conversation manually and return it to the client."""

from typing import Any

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.errors import InvalidValue, SummaryNotWritten
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.manual.compact import (
    KEPT_TURNS,
    ManualOptions,
    ManualResult,
    compact_manually,
    record_manual,
)
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoutes
from chat_proxy.proxy.session.request import CompactionRequest, counted_request
from chat_proxy.proxy.sizing.measure import Sizing
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import RequestReader
from chat_proxy.wires.body import document_with, has_stored_history, own_fields, wire_of, written
from chat_proxy.wires.reading import picked


class Compact:
    """Compacts conversations manually, in every mode."""

    route = "/v1/chat/compact"
    methods = frozenset({"POST"})

    def __init__(
        self,
        reader: RequestReader,
        model_routes: ModelRoutes,
        sizing: Sizing,
        services: CompactionServices,
    ) -> None:
        self._reader = reader
        self._model_routes = model_routes
        self._sizing = sizing
        self._services = services

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Compact one conversation."""
        request = await self._reader.read_any(context, client)
        await client.watch(context, self._answer(request, context))

    async def _answer(self, request: ChatRequest, context: RequestContext) -> None:
        record = context.record
        record.model = required_model(request)
        options = options_in(request)
        refuse_stored_history(request)
        route = self._model_routes.of(request.model)
        record.upstream = route.base_url
        compaction = await counted_request(
            request, route, context.caller, record.request_id, self._sizing
        )
        compaction = compaction._replace(span=record.span)
        done = await compact_manually(compaction, self._services, options)
        record_manual(record, done, compaction)
        if done.has_failed:
            raise SummaryNotWritten(f"No summary was written: {done.note} Nothing was changed.")
        body = document_of(compaction, done)
        await context.answer_json(body)


def required_model(request: ChatRequest) -> str:
    """Return the model's name, or raise InvalidValue: no upstream checks it here."""
    if not request.model:
        raise InvalidValue("model must be the name of a model.", param="model")
    return request.model


def refuse_stored_history(request: ChatRequest) -> None:
    """Raise InvalidValue for a conversation that the proxy sees only a part of."""
    if has_stored_history(request):
        raise InvalidValue("A part of the history is stored at the upstream; send it whole.")


def options_in(request: ChatRequest) -> ManualOptions:
    """Return the options of a compaction, or raise InvalidValue."""
    fields, key = own_fields(request), wire_of(request).key
    keep, instruction = fields.get("keep"), fields.get("instruction")
    if keep is not None and (type(keep) is not int or keep < 1):
        raise InvalidValue("keep must be a number of turns, at least 1.", param="keep")
    if instruction is not None and type(instruction) is not str:
        raise InvalidValue("instruction must be a text.", param="instruction")
    if fields.get(key) == []:
        raise InvalidValue(f"{key} must not be empty.", param=key)
    return ManualOptions(keep or KEPT_TURNS, (instruction or "").strip())


def document_of(compaction: CompactionRequest, done: ManualResult) -> bytes:
    """Return the response body; unchanged messages keep their bytes.

    Instructions that have a field of their own are in it too.
    """
    request = compaction.request
    wire, given = wire_of(request), own_fields(request)
    items, changed = written(request, compaction.conversation, done.conversation)
    fields = {**picked(given, (wire.instructions,)), **changed, **figures_of(done)}
    return document_with(request, items, fields)


def figures_of(done: ManualResult) -> dict[str, Any]:
    """Return the summary and its figures."""
    return {
        "summary": done.summary,
        "messages_compacted": done.messages_compacted,
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
        "checkpoint": {"covered": done.covered},
        **({"note": done.note} if done.note else {}),
    }
