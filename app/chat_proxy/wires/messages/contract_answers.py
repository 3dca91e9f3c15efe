"""What a Messages answer says about a contract: the compaction block, edits, usage by iteration."""

from collections.abc import Iterable
from typing import Any, Final

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.errors import UpstreamInvalidResponse
from chat_proxy.wires.answers import named_event, parsed_document
from chat_proxy.wires.contracts.contract import ContractOutcome
from chat_proxy.wires.event_streams.events import EventSplitter, document_of
from chat_proxy.wires.messages.compaction_blocks import compaction_block
from chat_proxy.wires.messages.edits import CLEAR_THINKING, CLEAR_TOOL_USES
from chat_proxy.wires.reading import Fields
from chat_proxy.wires.usage import token_count

_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
_BLOCK_EVENTS: Final = ("content_block_start", "content_block_delta", "content_block_stop")
_ENDING: Final = b'"message_delta"'


def applied_edits(outcome: ContractOutcome) -> list[Fields]:
    """Return the edits that changed this request's prompt; compactions have a block instead."""
    found: list[Fields] = []
    if outcome.cleared_thinking_turns:
        found.append(
            {
                "type": CLEAR_THINKING,
                "cleared_thinking_turns": outcome.cleared_thinking_turns,
                "cleared_input_tokens": outcome.cleared_thinking_tokens,
            }
        )
    if outcome.cleared_results:
        found.append(
            {
                "type": CLEAR_TOOL_USES,
                "cleared_tool_uses": outcome.cleared_results,
                "cleared_input_tokens": outcome.cleared_result_tokens,
            }
        )
    return found


def iteration(kind: str, usage: Fields) -> Fields:
    """Return the usage of one iteration; what is not known is 0."""
    return {"type": kind} | {name: token_count(usage.get(name)) for name in _COUNTS}


def compaction_iteration(outcome: ContractOutcome) -> Fields:
    """Return the usage of a compaction."""
    counts = {"input_tokens": outcome.tokens_before, "output_tokens": outcome.summary_tokens}
    return iteration("compaction", counts)


class ContractEdit:
    """Adds to one message of the upstream what was done for a contract.

    A compaction is its first block; the upstream's own follow. Events that need no change keep
    their bytes.
    """

    goes_on = False

    def __init__(self, outcome: ContractOutcome) -> None:
        self._managed = {"applied_edits": applied_edits(outcome)}
        self._block = compaction_block(outcome) if outcome.sealed else None
        self._compaction = compaction_iteration(outcome)
        self._events = EventSplitter()
        self._usage: Fields = {}

    def whole(self, body: bytes) -> bytes:
        """Return the body of a message with the additions; anything else as it is."""
        try:
            message = parsed_document(body)
        except UpstreamInvalidResponse:
            return body
        content = message.get("content")
        if message.get("type") != "message" or type(content) is not list:
            return body
        added: Fields = {"context_management": self._managed}
        if self._block is not None:
            usage = message.get("usage")
            self._usage = usage if type(usage) is dict else {}
            added["content"] = [self._block, *content]
            added["usage"] = {**self._usage, "iterations": self._iterations()}
        return serialise({**message, **added})

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that a chunk completes, changed where they need to be."""
        return b"".join(self._changed(event) for event in self._events.feed(chunk))

    def end(self) -> bytes:
        """Return what is left of an incomplete event."""
        return self._events.rest()

    def _changed(self, event: bytes) -> bytes:
        if self._block is None and _ENDING not in event:
            return event
        document = document_of(event)
        kind = document.get("type") if document else None
        if document is None or type(kind) is not str:
            return event
        if kind == "message_start":
            return self._started(event, document)
        if kind in _BLOCK_EVENTS and type(document.get("index")) is int:
            return named_event({**document, "index": document["index"] + 1})
        if kind == "message_delta":
            return named_event(self._ended(document))
        return event

    def _started(self, event: bytes, document: Fields) -> bytes:
        """Return the first event, and the compaction behind it."""
        if self._block is None:
            return event
        message = document.get("message")
        self._add_usage(message if type(message) is dict else {})
        return event + b"".join(map(named_event, block_events(self._block)))

    def _ended(self, document: Fields) -> Fields:
        """Return the event with the reason to stop, the edits and the usage by iteration."""
        ended = {**document, "context_management": self._managed}
        if self._block is not None:
            self._add_usage(document)
            usage: Any = document.get("usage")
            own = usage if type(usage) is dict else {"output_tokens": 0}
            ended["usage"] = {**own, "iterations": self._iterations()}
        return ended

    def _add_usage(self, document: Fields) -> None:
        """Remember the counts so far: those of the end are totals and replace the first ones."""
        usage = document.get("usage")
        if type(usage) is dict:
            self._usage |= {name: usage[name] for name in _COUNTS if usage.get(name) is not None}

    def _iterations(self) -> list[Fields]:
        return [self._compaction, iteration("message", self._usage)]


def block_events(block: Fields, index: int = 0) -> list[Fields]:
    """Return the events of a compaction block: its content comes whole, in one delta.

    The delta has no place for a signature, and older SDKs keep of it the content alone: what else
    must be sent back stands in the first event.
    """
    delta = {
        "type": "compaction_delta",
        "content": block["content"],
        "encrypted_content": block["encrypted_content"],
    }
    return [
        {
            "type": "content_block_start",
            "index": index,
            "content_block": {**block, "content": None},
        },
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


def paused_message(outcome: ContractOutcome, model: str, request_id: str) -> Fields:
    """Return a message that is a compaction alone."""
    # The tokens of a compaction are not part of the totals.
    usage = dict.fromkeys(_COUNTS, 0)
    return {
        "id": f"msg_{request_id}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [compaction_block(outcome)],
        "stop_reason": "compaction",
        "stop_sequence": None,
        "context_management": {"applied_edits": applied_edits(outcome)},
        "usage": {**usage, "iterations": [compaction_iteration(outcome)]},
    }


def paused_events(message: Fields) -> Iterable[Fields]:
    """Yield the events of a message that is a compaction alone."""
    usage: Fields = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "context_management": None}
    begun["usage"] = {name: usage[name] for name in _COUNTS}
    yield {"type": "message_start", "message": begun}
    yield from block_events(message["content"][0])
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
        "usage": usage,
        "context_management": message["context_management"],
    }
    yield {"type": "message_stop"}
