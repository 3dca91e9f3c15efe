"""`POST /v1/chat/compact`: a conversation folded by hand, for the client to go on with."""

from typing import Any

from app.chat.request import ChatRequest
from app.chat.splice import dumped, written_messages
from app.errors import InvalidValue, SummaryNotWritten
from app.proxy.case import Case, references
from app.proxy.counted import counted_case
from app.proxy.manual import KEPT_TURNS, ByHand, Wish, compact_by_hand, note_hand
from app.proxy.reading import request_in
from app.proxy.services import Services
from app.proxy.visit import Visit
from app.routes.chat import refuse_forms
from app.routes.client import Client


class Compact:
    """Compacts conversations by hand, in every mode: whoever asks for it wants it."""

    route = "/v1/chat/compact"
    methods = frozenset({"POST"})

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, visit: Visit, client: Client) -> None:
        """Compact one conversation."""
        services, record = self._services, visit.record
        refuse_forms(visit.values)
        record.phase = "body"
        body = await client.read_body(services.policy.max_body_bytes, services.admission)
        record.bytes_in = len(body)
        request = await request_in(body, services.limits)
        await client.watch(visit, self._answer(request, visit, client))

    async def _answer(self, request: ChatRequest, visit: Visit, client: Client) -> None:
        record = visit.record
        record.model = required_model(request)
        wish = wish_in(request)
        case = await counted_case(request, visit.caller, record.request_id, self._services)
        done = await compact_by_hand(case, self._services, wish)
        note_hand(record, done, len(case.conversation))
        if done.has_failed:
            raise SummaryNotWritten(f"No summary was written: {done.note} Nothing was changed.")
        body = document_of(case, done)
        record.status = 200
        record.bytes_out = len(body)
        headers = [(b"content-type", b"application/json"), *record.response_headers()]
        await client.answer(200, headers, body)


def required_model(request: ChatRequest) -> str:
    """Return the model's name, or raise InvalidValue; nobody else would complain about it."""
    if not request.model:
        raise InvalidValue("model must be the name of a model.", param="model")
    return request.model


def wish_in(request: ChatRequest) -> Wish:
    """Return what the client wishes for, or raise InvalidValue."""
    keep, instruction = request.fields.get("keep"), request.fields.get("instruction")
    if keep is not None and (type(keep) is not int or keep < 1):
        raise InvalidValue("keep must be a number of turns, at least 1.", param="keep")
    if instruction is not None and type(instruction) is not str:
        raise InvalidValue("instruction must be a text.", param="instruction")
    if request.fields.get("messages") == []:
        raise InvalidValue("messages must not be empty.", param="messages")
    return Wish(keep or KEPT_TURNS, (instruction or "").strip())


def document_of(case: Case, done: ByHand) -> bytes:
    """Return the answer; messages that stay keep their bytes."""
    request = case.request
    messages = written_messages(request.body, references(case, done.conversation), request.fields)
    return b'{"messages":' + messages + b"," + dumped(figures_of(done))[1:]


def figures_of(done: ByHand) -> dict[str, Any]:
    """Return the summary and what it won."""
    return {
        "summary": done.summary,
        "messages_compacted": done.messages_compacted,
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
        "checkpoint": {"covered": done.covered},
        **({"note": done.note} if done.note else {}),
    }
