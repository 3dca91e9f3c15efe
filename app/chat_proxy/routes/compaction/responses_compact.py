"""`POST /v1/responses/compact`: return a conversation's user messages and one compaction item."""

import time
from dataclasses import replace

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.errors import InvalidValue
from chat_proxy.proxy.contracts.answer import run_compaction
from chat_proxy.proxy.contracts.holder import UPSTREAM_COMPACTS
from chat_proxy.proxy.contracts.services import ContractServices
from chat_proxy.proxy.contracts.take_over import (
    contract_in,
    hold_opened,
    holder_of,
    taken_over,
)
from chat_proxy.proxy.forwarding.send import forward
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoutes
from chat_proxy.routes.chat import effective_mode
from chat_proxy.routes.compaction.compact import required_model
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import RequestReader
from chat_proxy.wires.body import own_fields
from chat_proxy.wires.contracts.contract import Contract
from chat_proxy.wires.responses.compaction_item import compaction_document
from chat_proxy.wires.responses.wire import RESPONSES

_PATH = f"{RESPONSES.path}/compact"


class ResponsesCompact:
    """Compacts conversations as the Responses API does, unless the upstream does it."""

    route = f"/v1{_PATH}"
    methods = frozenset({"POST"})

    def __init__(
        self, reader: RequestReader, model_routes: ModelRoutes, services: ContractServices
    ) -> None:
        self._reader = reader
        self._model_routes = model_routes
        self._services = services

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Compact one conversation."""
        request = await self._reader.read_chat(context, client, RESPONSES)
        await client.watch(context, self._answer(request, context))

    async def _answer(self, request: ChatRequest, context: RequestContext) -> None:
        record, services = context.record, self._services
        route = self._model_routes.of(request.model)
        asked = context.values.get(b"x-chat-proxy-mode", b"")
        record.model, record.upstream = route.model, route.base_url
        record.set_mode(effective_mode(route.policy.mode, asked))
        contract = contract_in(request, context.headers) or Contract()
        contract = replace(contract, compacts_now=True)
        holder = holder_of(request, contract, route, context.caller.tenant, services)
        if record.mode != "on" or holder == "upstream":
            record.compaction = "off"
            record.explain(UPSTREAM_COMPACTS, warns=False)
            await forward(_PATH, request.body, route, context, services.forwarding)
            return
        required_model(request)
        check_instructions(request)
        ours = await taken_over(request, contract, route, context.caller.tenant, services)
        hold_opened(request, ours, context)
        done = await run_compaction(ours, contract, route, context, services)
        given = own_fields(request).get("input")
        document = compaction_document(given, done, record.request_id, int(time.time()))
        await context.answer_json(serialise(document))


def check_instructions(request: ChatRequest) -> None:
    """Raise InvalidValue for instructions that are no text: no upstream checks them here."""
    instructions = own_fields(request).get("instructions")
    if instructions is not None and type(instructions) is not str:
        raise InvalidValue("instructions must be a text.", param="instructions")
