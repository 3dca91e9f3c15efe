"""The compaction item in answers of the Responses API: put in front of the output, or alone."""

from typing import Any, Final

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.errors import UpstreamInvalidResponse
from chat_proxy.wires.answers import Reply, named_event, parsed_document
from chat_proxy.wires.contracts.contract import ContractOutcome
from chat_proxy.wires.event_streams.events import EventSplitter, document_of
from chat_proxy.wires.reading import Fields
from chat_proxy.wires.responses.answers import response_of

_BEFORE_OUTPUT: Final = ("response.created", "response.queued", "response.in_progress")


def item_of(done: ContractOutcome, request_id: str) -> Fields:
    """Return the output item of a compaction."""
    return {"type": "compaction", "id": f"cmp_{request_id}", "encrypted_content": done.sealed}


def item_events(item: Fields) -> list[Fields]:
    """Return the events that announce an item at the beginning of the output."""
    place = {"output_index": 0}
    return [
        {"type": "response.output_item.added", **place, "item": item},
        {"type": "response.compaction.compacting", **place, "item_id": item["id"]},
        {"type": "response.output_item.done", **place, "item": item},
    ]


def compaction_document(given: Any, done: ContractOutcome, request_id: str, now: int) -> Fields:
    """Return a compacted conversation: all messages of the user, and one item for the rest."""
    items = given if type(given) is list else [{"role": "user", "content": given}]
    users = [it for it in items if type(it) is dict and it.get("role") == "user"]
    messages = [
        {
            "type": "message",
            "id": f"msg_{request_id}_{number}",
            "status": "completed",
            **message,
            "content": _parts(message.get("content")),
        }
        for number, message in enumerate(users)
    ]
    return {
        "id": f"resp_{request_id}",
        "object": "response.compaction",
        "created_at": now,
        "output": [*messages, item_of(done, request_id)],
        "usage": usage_of(done),
    }


def _parts(content: Any) -> Any:
    return [{"type": "input_text", "text": content}] if type(content) is str else content


def usage_of(done: ContractOutcome) -> Fields:
    """Return the tokens of a compaction: what it read, and what it wrote."""
    return {
        "input_tokens": done.tokens_before,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": done.summary_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": done.tokens_before + done.summary_tokens,
    }


def compacted_reply(reply: Reply, done: ContractOutcome, *, streams: bool) -> bytes:
    """Return the answer to a request that asks for a compaction and nothing else."""
    item = item_of(done, reply.request_id)
    complete = {**response_of(reply, "completed", [item]), "usage": usage_of(done)}
    if not streams:
        return serialise(complete)
    begun = response_of(reply, "in_progress", [])
    events: list[Fields] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *item_events(item),
        {"type": "response.completed", "response": complete},
    ]
    return b"".join(
        named_event({**event, "sequence_number": number}) for number, event in enumerate(events)
    )


class CompactionItemEdit:
    """Put a compaction item in front of an answer's output; later indexes and numbers move up."""

    goes_on = False

    def __init__(self, done: ContractOutcome, request_id: str) -> None:
        self._item = item_of(done, request_id)
        self._splitter = EventSplitter()
        self._number = -1
        self._moved = 0

    def whole(self, body: bytes) -> bytes:
        """Return an answer with the item first."""
        try:
            document = parsed_document(body)
        except UpstreamInvalidResponse:
            return body
        return serialise(self._with_item(document))

    def feed(self, chunk: bytes) -> bytes:
        """Return the events with the item's own before the first of the output."""
        return b"".join(map(self._edited, self._splitter.feed(chunk)))

    def end(self) -> bytes:
        """Return an event that was not complete."""
        return self._splitter.rest()

    def _edited(self, event: bytes) -> bytes:
        document = document_of(event)
        if document is None:
            return event
        announced = b""
        if not self._moved and document.get("type") not in _BEFORE_OUTPUT:
            announced = self._announced()
        number, index = document.get("sequence_number"), document.get("output_index")
        if type(number) is int:
            document["sequence_number"] = self._number = number + self._moved
        else:
            self._number += 1
        if not self._moved:
            return event
        if type(index) is int:
            document["output_index"] = index + 1
        if type(document.get("response")) is dict:
            document["response"] = self._with_item(document["response"])
        return announced + (named_event(document) if "type" in document else event)

    def _announced(self) -> bytes:
        """Return the events of the item, with the numbers that follow the last one."""
        events = item_events(self._item)
        self._moved = len(events)
        numbered = enumerate(events, self._number + 1)
        announced = [named_event({**it, "sequence_number": number}) for number, it in numbered]
        return b"".join(announced)

    def _with_item(self, response: dict[str, Any]) -> dict[str, Any]:
        output = response.get("output")
        if type(output) is not list:
            return response
        return {**response, "output": [self._item, *output]}
