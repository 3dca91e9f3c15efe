"""Leave a request's contract to the upstream, or take it over; answer what only compacts."""

import json
import time
from functools import partial

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.errors import InvalidValue, RequestTooLarge
from chat_proxy.http.headers import RawHeaders
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.compacting.compact_now import compact_now
from chat_proxy.proxy.contracts.apply import nothing_done, sealed_outcome, under_contract
from chat_proxy.proxy.contracts.holder import UPSTREAM_COMPACTS
from chat_proxy.proxy.contracts.refusals import is_contract_refusal
from chat_proxy.proxy.contracts.services import ContractServices
from chat_proxy.proxy.contracts.take_over import hold_opened, holder_of, taken_over
from chat_proxy.proxy.forwarding.relay_chat import RelayChat
from chat_proxy.proxy.forwarding.send import call_of, send_and_relay
from chat_proxy.proxy.forwarding.sse_keepalive import SseKeepalive
from chat_proxy.proxy.manual.command_reply import send_own_answer
from chat_proxy.proxy.reporting.record_outcome import record_result, record_size
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.session.output import body_to_send
from chat_proxy.proxy.session.request import counted_request, unchanged_result
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.wires.answers import Reply
from chat_proxy.wires.body import has_stored_history
from chat_proxy.wires.contracts.contract import Contract, ContractOutcome
from chat_proxy.wires.wire import Wire

SEND_IT_WHOLE = "A part of the history is stored at the upstream; send it whole."
TOO_LONG_TO_SEAL = "What the compaction leaves is too long to be carried by a compaction item."


class ContractRefused(Exception):
    """The upstream does not keep a contract that it was left to, and the client does not know."""


class RelayToRefusal(RelayChat):
    """Relay an answer, unless it refuses the parameters of the contract."""

    def _raise_overflow(self, status: int, headers: RawHeaders, body: bytes) -> None:
        if is_contract_refusal(status, body):
            raise ContractRefused
        super()._raise_overflow(status, headers, body)


async def answer_or_take_over(
    request: ChatRequest,
    contract: Contract,
    route: ModelRoute,
    context: RequestContext,
    services: ContractServices,
) -> ChatRequest | None:
    """Return the request as the proxy keeps its contract; None if it was answered here.

    Parameters that ask for nothing are left in it until the upstream refuses them, and for good
    where the operator leaves contracts to the upstream.
    """
    if contract.asks_nothing:
        context.may_be_refused = route.policy.contracts != "upstream"
        return request
    tenant = context.caller.tenant
    if holder_of(request, contract, route, tenant, services) == "upstream":
        may_learn = route.policy.contracts == "auto" and not contract.mistake
        try:
            await answer_by_upstream(request, route, context, services, may_learn=may_learn)
        except ContractRefused:
            services.refusals.add(tenant, route, context.wire)
        else:
            return None
    context.record.compaction = "none"
    ours = await taken_over(request, contract, route, tenant, services)
    hold_opened(request, ours, context)
    context.contract = contract
    context.done = nothing_done(contract)
    if not contract.compacts_now:
        return ours
    async with SseKeepalive(context, route.policy.summary.keep_alive_seconds):
        context.done = await run_compaction(ours, contract, route, context, services)
    await send_compaction(ours, context)
    return None


async def accepted_body(
    body: bytes, route: ModelRoute, context: RequestContext, services: ContractServices
) -> bytes:
    """Return a body without parameters that ask for nothing and that the upstream refuses."""
    tenant = context.caller.tenant
    if not context.may_be_refused or not services.refusals.has(tenant, route, context.wire):
        return body
    return await run_inline_or_in_thread(
        partial(_without_parameters, body, context.wire), len(body)
    )


def _without_parameters(body: bytes, wire: Wire) -> bytes:
    return serialise(wire.without_contract(json.loads(body), None))


def relay_class(body: bytes, whole: bytes, context: RequestContext) -> type[RelayChat]:
    """Return how an answer is relayed: a refusal is not, while its cause can be taken out."""
    return RelayToRefusal if context.may_be_refused and body is whole else RelayChat


async def answer_by_upstream(
    request: ChatRequest,
    route: ModelRoute,
    context: RequestContext,
    services: ContractServices,
    *,
    may_learn: bool,
) -> None:
    """Relay the answer to a request whose contract the upstream keeps, byte for byte both ways.

    It is not compacted: never by two. With `may_learn`, ContractRefused is raised for the refusal
    of an upstream that was only believed to keep it.
    """
    record, forwarding = context.record, services.forwarding
    record.compaction = "off"
    relay_class = RelayToRefusal if may_learn else RelayChat
    relay = relay_class(context, forwarding.policy, sent=request.body)
    call = call_of(context.wire.path, request.body, route, context)
    await send_and_relay(call, relay, context, forwarding)
    forwarding.metrics.skipped.labels("contract").inc()
    record.explain(UPSTREAM_COMPACTS, warns=False)


async def run_compaction(
    request: ChatRequest,
    contract: Contract,
    route: ModelRoute,
    context: RequestContext,
    services: ContractServices,
) -> ContractOutcome:
    """Compact a conversation now and return its sealed prompt.

    If no model writes a summary, notes stand for it: the client has no other way to go on.
    """
    record = context.record
    if has_stored_history(request):
        raise InvalidValue(SEND_IT_WHOLE)
    compaction = await counted_request(
        request, route, context.caller, record.request_id, services.sizing
    )
    record_size(record, compaction.measured)
    try:
        result = await compact_now(under_contract(compaction, contract), services.compaction)
    except Exception as error:  # noqa: BLE001 - features fail open: it is sealed as it is
        log_exception("a request could not be compacted", error)
        result = unchanged_result(compaction)._replace(label="failed-open")
    record_result(record, result)
    write = partial(body_to_send, compaction, result)
    body = await run_inline_or_in_thread(write, request.work_bytes)
    done = await sealed_outcome(compaction, result, body, services.store)
    if not done.sealed:
        raise RequestTooLarge(TOO_LONG_TO_SEAL)
    return done


async def send_compaction(request: ChatRequest, context: RequestContext) -> None:
    """Send the answer that only reports a compaction."""
    reply = Reply("", request.model, context.record.request_id, int(time.time()))
    body = context.wire.compacted_reply(reply, context.done, streams=request.streams)
    await send_own_answer(body, context, streams=request.streams)
