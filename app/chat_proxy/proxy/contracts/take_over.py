"""Decide who keeps a request's contract, and take over those that are the proxy's."""

from collections.abc import Mapping
from functools import partial

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.body.parsed_body import ParsedBody
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.errors import InvalidValue, RequestTooLarge
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.contracts.seals import open_prompt
from chat_proxy.proxy.contracts.services import ContractServices
from chat_proxy.proxy.contracts.whose_job import Holder, is_hosted, whose_job
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.wires.contracts.contract import Contract
from chat_proxy.wires.reading import Fields
from chat_proxy.wires.request import WireRequest
from chat_proxy.wires.wire import Wire


def contract_in(request: ChatRequest, headers: Mapping[bytes, bytes]) -> Contract | None:
    """Return what a request asks the server to do about its context; None: nothing."""
    if not isinstance(request, WireRequest):
        return None  # and its fields are not parsed: most of them are known already
    return request.wire.contract(request.own_fields, headers)


def holder_of(
    contract: Contract | None, route: ModelRoute, wire: Wire, services: ContractServices
) -> Holder:
    """Return who keeps a contract with this upstream."""
    if contract is None:
        return "none"
    return whose_job(
        route.policy.contracts,
        contract,
        is_hosted=is_hosted(route.base_url, wire),
        is_refused=services.refusals.has(route, wire),
    )


async def taken_over(
    request: ChatRequest,
    contract: Contract,
    route: ModelRoute,
    tenant: str,
    services: ContractServices,
) -> ChatRequest:
    """Return the request without the contract's parameters, its sealed prompt opened.

    Raise InvalidValue for parameters that are wrong, InvalidCompactionItem for a prompt that the
    proxy did not seal for this tenant, model and policy.
    """
    if not isinstance(request, WireRequest):
        return request
    if contract.mistake:
        raise InvalidValue(contract.mistake, param=contract.param)
    wire, sealed = request.wire, None
    if contract.sealed is not None:
        scope = Scope(tenant, route.fingerprint)
        sealed = await open_prompt(contract.sealed, wire, scope, services.store)
    fields = wire.obeyed(request.own_fields, sealed)
    if fields is request.own_fields:
        return request
    work = partial(_request_of, fields, request)
    obeying = await run_inline_or_in_thread(work, request.work_bytes)
    if len(obeying.body) > services.max_body_bytes:
        raise RequestTooLarge(
            f"With its compaction item opened, the body is {len(obeying.body)} bytes; at most "
            f"{services.max_body_bytes} are accepted."
        )
    return obeying


def hold_opened(request: ChatRequest, ours: ChatRequest, context: RequestContext) -> None:
    """Have a request hold what its sealed prompt opened to, or raise Overloaded."""
    if ours is not request:
        context.hold(len(request.body) + ours.memory_bytes)


def _request_of(fields: Fields, request: WireRequest) -> WireRequest:
    parsed = ParsedBody(serialise(fields), fields, request.has_lone_surrogates)
    return WireRequest(request.wire, parsed, request.salt)
