"""`POST /v1/messages/count_tokens`: the size of a request as the upstream would get it."""

from dataclasses import replace

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.errors import InvalidValue
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.contracts.apply import under_contract
from chat_proxy.proxy.contracts.refusals import is_contract_refusal
from chat_proxy.proxy.contracts.services import ContractServices
from chat_proxy.proxy.contracts.take_over import (
    contract_in,
    hold_opened,
    holder_of,
    taken_over,
)
from chat_proxy.proxy.forwarding.relay_chat import RelayChat
from chat_proxy.proxy.forwarding.send import call_of, send_and_relay
from chat_proxy.proxy.recall.restore import Restoring
from chat_proxy.proxy.reporting.prompt_size import PromptSize, prompt_size, size_unchanged
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoute, ModelRoutes
from chat_proxy.proxy.session.request import CompactionRequest, counted_request
from chat_proxy.proxy.sizing.measure import Sizing
from chat_proxy.routes.chat import effective_mode
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.read_request import RequestReader
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.wires.contracts.contract import Contract
from chat_proxy.wires.messages.wire import MESSAGES

NOT_SERVED = frozenset({404, 405, 501})
"""How upstreams answer that have no such path."""
_PATH = f"{MESSAGES.path}/count_tokens"


class NotServed(Exception):
    """The upstream does not count tokens, or not those of this request."""


class CountTokens:
    """Answers with the upstream's count, or with our own.

    Ours is used where the upstream has none, and for a request that would be compacted: the
    upstream would count what it never gets. Nothing is stored, and no summary is written.
    """

    route = f"/v1{_PATH}"
    methods = frozenset({"POST"})

    def __init__(
        self,
        reader: RequestReader,
        model_routes: ModelRoutes,
        sizing: Sizing,
        services: CompactionServices,
        contracts: ContractServices,
        restoring: Restoring,
    ) -> None:
        self._reader = reader
        self._model_routes = model_routes
        self._sizing = sizing
        self._services = services
        self._contracts = contracts
        self._restoring = restoring
        self._forwarding = contracts.forwarding

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Answer one request."""
        request = await self._reader.read_chat(context, client, MESSAGES)
        await client.watch(context, self._answer(request, context))

    async def _answer(self, request: ChatRequest, context: RequestContext) -> None:
        record = context.record
        route = self._model_routes.of(request.model)
        asked = context.values.get(b"x-chat-proxy-mode", b"")
        record.model, record.upstream = route.model, route.base_url
        record.set_mode(effective_mode(route.policy.mode, asked))
        request = await self._taken_over(request, route, context)
        size = await self._size_if_compacted(request, route, context)
        if size is None:
            if await self._is_counted_upstream(request, route, context):
                return
            size = size_unchanged(await self._counted(request, route, context))
        await _send(size, context)

    async def _taken_over(
        self, request: ChatRequest, route: ModelRoute, context: RequestContext
    ) -> ChatRequest:
        """Return the request as it is sent if the proxy keeps its contract, else unchanged."""
        if context.record.mode != "on":
            return request
        contract = contract_in(request, context.headers)
        services = self._contracts
        if contract is None or contract.asks_nothing:
            is_ours = route.policy.contracts != "upstream"
            context.may_be_refused = contract is not None and is_ours
            return request
        tenant = context.caller.tenant
        if holder_of(request, contract, route, tenant, services) == "upstream":
            return request
        context.contract = contract
        ours = await taken_over(request, contract, route, tenant, services)
        hold_opened(request, ours, context)
        return ours

    async def _size_if_compacted(
        self, request: ChatRequest, route: ModelRoute, context: RequestContext
    ) -> PromptSize | None:
        """Return the size of a request that would be compacted, None for any other."""
        if context.record.mode != "on":
            return None
        try:
            request = await self._restoring.restored(request, route, context.caller.tenant)
            compaction = await self._counted(request, route, context)
            if context.contract is not None:
                compaction = under_contract(compaction, without_compaction(context.contract))
            size = await prompt_size(compaction, self._services)
        except InvalidValue:
            return None
        except Exception as error:  # noqa: BLE001 - features fail open: the upstream counts
            log_exception("tokens could not be counted", error)
            return None
        return size if size.is_changed else None

    async def _counted(
        self, request: ChatRequest, route: ModelRoute, context: RequestContext
    ) -> CompactionRequest:
        return await counted_request(
            request,
            route,
            context.caller,
            context.record.request_id,
            self._sizing,
            is_dry_run=True,
        )

    async def _is_counted_upstream(
        self, request: ChatRequest, route: ModelRoute, context: RequestContext
    ) -> bool:
        """Relay the upstream's answer; return False if it does not count this request."""
        call = call_of(_PATH, request.body, route, context)
        relay = _RelayIfServed(context, self._forwarding.policy)
        try:
            await send_and_relay(call, relay, context, self._forwarding)
        except NotServed:
            return False
        return True


def without_compaction(contract: Contract) -> Contract:
    """Return what a count depends on: blocks and clearings, but nothing is compacted anew."""
    return replace(contract, compacts=False, compacts_now=False)


class _RelayIfServed(RelayChat):
    """Relay an answer unless there is no such path, or a parameter that asks for nothing."""

    def _raise_overflow(self, status: int, headers: RawHeaders, body: bytes) -> None:  # noqa: ARG002 - as its base
        is_refusal = self._context.may_be_refused and is_contract_refusal(status, body)
        if is_refusal or status in NOT_SERVED:
            raise NotServed


async def _send(size: PromptSize, context: RequestContext) -> None:
    record = context.record
    record.compaction = "off" if record.mode == "off" else size.label
    record.tokens_before, record.tokens_after = size.before, size.after
    edits = {"original_input_tokens": size.before}
    body = serialise({"input_tokens": size.after, "context_management": edits})
    await context.answer_json(body)
