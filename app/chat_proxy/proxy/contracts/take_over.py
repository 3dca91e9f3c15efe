"""Decide who keeps a request's contract, and take over those that are the proxy's."""

import asyncio

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.body.parsed_body import RequestLimits, parse_body
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.errors import InvalidValue, RequestTooLarge
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.contracts.holder import Holder, contract_holder, is_hosted
from chat_proxy.proxy.contracts.seals import open_prompt
from chat_proxy.proxy.contracts.services import ContractServices
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.wires.body import exact_fields, wire_of
from chat_proxy.wires.contracts.contract import Contract, SealedPrompt
from chat_proxy.wires.request import WireRequest


def contract_in(request: ChatRequest, headers: RawHeaders) -> Contract | None:
    """Return what a request asks the server to do about its context; None: nothing."""
    if not isinstance(request, WireRequest):
        return None  # and its fields are not parsed: most of them are known already
    return request.wire.contract(request.own_fields, headers)


def holder_of(
    request: ChatRequest,
    contract: Contract | None,
    route: ModelRoute,
    tenant: str,
    services: ContractServices,
) -> Holder:
    """Return who keeps a request's contract with this upstream."""
    if contract is None:
        return "none"
    wire = wire_of(request)
    return contract_holder(
        route.policy.contracts,
        contract,
        is_hosted=is_hosted(route.base_url, wire),
        is_refused=services.refusals.has(tenant, route, wire),
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
    sealed = None
    if contract.sealed is not None:
        scope = Scope(tenant, route.fingerprint)
        sealed = await open_prompt(contract.sealed, request.wire, scope, services.store)
    # Never on the event loop: a short request may bring a long prompt.
    body = await asyncio.to_thread(_body_without_contract, request, sealed)
    if len(body) > services.max_body_bytes:
        raise RequestTooLarge(
            f"With its compaction item opened, the body is {len(body)} bytes; at most "
            f"{services.max_body_bytes} are accepted."
        )
    return await asyncio.to_thread(_request_of, body, request, services.limits)


def hold_opened(request: ChatRequest, ours: ChatRequest, context: RequestContext) -> None:
    """Have a request hold what its sealed prompt opened to, or raise Overloaded."""
    context.hold(len(request.body) + ours.memory_bytes)


def _body_without_contract(request: WireRequest, sealed: SealedPrompt | None) -> bytes:
    return serialise(request.wire.without_contract(exact_fields(request), sealed))


def _request_of(body: bytes, request: WireRequest, limits: RequestLimits) -> WireRequest:
    return WireRequest(request.wire, parse_body(body, limits), request.salt)
