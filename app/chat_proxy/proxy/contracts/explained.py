"""Explain a request with what its client asks the server to do about its context."""

from typing import Any

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.contracts.apply import under_contract
from chat_proxy.proxy.contracts.services import ContractServices
from chat_proxy.proxy.contracts.take_over import contract_in, holder_of, taken_over
from chat_proxy.proxy.reporting.explain import explain
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.session.request import counted_request


async def explain_request(
    request: ChatRequest,
    route: ModelRoute,
    caller: Caller,
    headers: RawHeaders,
    services: ContractServices,
) -> dict[str, Any]:
    """Return what would be done to a request, and who keeps its contract; nothing is sent."""
    contract = contract_in(request, headers)
    holder = holder_of(request, contract, route, caller.tenant, services)
    if contract is not None and holder == "proxy":
        request = await taken_over(request, contract, route, caller.tenant, services)
    compaction = await counted_request(request, route, caller, "", services.sizing, is_dry_run=True)
    if holder == "proxy":
        compaction = under_contract(compaction, contract)
    return {**await explain(compaction, services.compaction), "contract": holder}
