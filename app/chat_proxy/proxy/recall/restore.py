"""Put the calls that the client never saw back into the history that it sends."""

from dataclasses import dataclass

from chat_proxy.chat.body.parsed_body import RequestLimits, parse_body
from chat_proxy.chat.body.request import ChatRequest, request_of
from chat_proxy.chat.body.splice import splice
from chat_proxy.chat.conversation import Conversation
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.recall.exchanges import Exchange, Exchanges
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.session.recognition.history import History, history_of
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.wires.body import has_stored_history, own_fields, wire_of
from chat_proxy.wires.reading import Items
from chat_proxy.wires.request import WireRequest

DIGESTS = "recall-digests"
"""The kind of the key under which the histories of exchanges are hashed."""


async def history_of_exchange(
    conversation: Conversation, route: ModelRoute, scope: Scope, exchanges: Exchanges, size: int
) -> History:
    """Return the history by whose hashes exchanges are found."""
    key = exchanges.key(scope, DIGESTS)
    return await history_of(conversation, route.policy.volatile, key, size)


@dataclass(frozen=True, slots=True)
class Restoring:
    """What puts the exchanges of a history back into a request."""

    exchanges: Exchanges
    limits: RequestLimits

    async def restored(self, request: ChatRequest, route: ModelRoute, tenant: str) -> ChatRequest:
        """Return the request with all exchanges of its history; the same object if it has none."""
        conversation = request.conversation
        if conversation is None or not route.policy.recall.offers(request.options):
            return request
        answers = [at for at, it in enumerate(conversation.messages) if it.is_assistant]
        if not answers or has_stored_history(request):
            return request
        scope, size = Scope(tenant, route.fingerprint), request.work_bytes
        history = await history_of_exchange(conversation, route, scope, self.exchanges, size)
        found = await self.exchanges.find(scope, history, answers, wire_of(request).name)
        if not found:
            return request
        return await run_inline_or_in_thread(lambda: with_rounds(request, found, self.limits), size)


def with_rounds(
    request: ChatRequest, found: dict[int, Exchange], limits: RequestLimits
) -> ChatRequest:
    """Return the request with exchanges put into its conversation, each ends at an index."""
    wire, fields = wire_of(request), own_fields(request)
    given = fields.get(wire.key)
    if type(given) is not list:
        return request
    items: Items = []
    position = 0
    for at, exchange in sorted(found.items()):
        start, stop = _place_of(request, at - exchange.messages + 1, at)
        turn = wire.restored(given[start:stop], exchange.rounds)
        if turn is None or start < position:
            continue
        items.extend(range(position, start))
        items.extend(turn)
        position = stop
    items.extend(range(position, len(given)))
    body = splice(request.body, items, fields, wire.key)
    if body is request.body:
        return request
    parsed = parse_body(body, limits)
    if isinstance(request, WireRequest):
        return WireRequest(wire, parsed, request.salt)
    return request_of(parsed, request.salt)


def _place_of(request: ChatRequest, first: int, last: int) -> tuple[int, int]:
    """Return the items of the wire's list that are these messages of the conversation."""
    if not isinstance(request, WireRequest):
        return first, last + 1
    sources = request.reading.sources
    return sources[first].start, sources[last].stop
