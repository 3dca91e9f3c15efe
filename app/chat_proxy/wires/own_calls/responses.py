"""The calls of the proxy's own tool in answers of the Responses API."""

from collections.abc import Sequence
from typing import Any, Final

from chat_proxy.wires.answers import named_event
from chat_proxy.wires.own_calls.edit import (
    OwnCall,
    OwnCallEdit,
    Round,
    SummedUsage,
    behind,
    object_in,
)
from chat_proxy.wires.reading import Fields, picked

_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
_BEGINNINGS: Final = ("response.created", "response.in_progress", "response.queued")
_CALL: Final = "function_call"
_KEPT: Final = {
    "message": ("type", "role", "content", "phase"),
    _CALL: ("type", "call_id", "name", "arguments"),
}
"""What an item needs in a later input: ids of items that are not stored are refused."""
_CLIENTS_CALLS: Final = (
    _CALL,
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "mcp_approval_request",
)
"""What the client answers; the upstream itself carries out all others, such as a search."""


class ResponsesOwnCalls(OwnCallEdit):
    """Takes the calls of a tool out of responses and their events."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self._head: Fields = {}
        self._usage = SummedUsage()
        self._last_usage: Any = None
        self._seen: list[Fields] = []
        """The items of the rounds before that the client has seen."""
        self._items: dict[int, Fields] = {}
        self._sequence = 0

    def document(self, document: Fields) -> Fields:
        """Return a response without calls of the tool."""
        output = document.get("output")
        if type(output) is not list:
            return document
        self._know(document)
        self._items = dict(enumerate(item for item in output if type(item) is dict))
        self._decide(document.get("status"))
        self._last_usage = document.get("usage")
        if self.goes_on or not (self._own_items() or self.rounds):
            return document
        # The client goes on from a stored response by its id: that of the last one.
        return self._joined(document, {} if document.get("store") is True else self._head)

    def event(self, document: Fields) -> Fields | None:
        """Return an event without calls of the tool, None if nothing is left."""
        kind, response = document.get("type"), document.get("response")
        if kind in _BEGINNINGS:
            if self.rounds:
                return None
            if type(response) is dict:
                self._know(response)
            return self._numbered(document)
        if kind in _ENDS and type(response) is dict:
            return self._ended(document, response)
        if kind == "error":
            self._fail()
        index = document.get("output_index")
        if type(index) is not int:
            return self._numbered(document)
        item = document.get("item")
        if type(item) is dict:
            self._items[index] = item
        if self._is_own(self._items.get(index, {})):
            return None
        before = [at for at, it in self._items.items() if at < index and not self._is_own(it)]
        number = len(self._seen) + len(before)
        return self._numbered(document if number == index else {**document, "output_index": number})

    def said(self) -> list[Fields]:
        """Return the model's turn with its calls of the tool alone."""
        items = [*self._shown_items(without_calls=True), *self._own_items()]
        return [kept for item in items if (kept := _as_input(item)) is not None]

    @property
    def shown(self) -> int:
        """The items of this round that the client sends back, whatever it does with thoughts."""
        return sum(not _is_thought(item) for item in self._shown_items(without_calls=True))

    def results(self, texts: list[str]) -> list[Fields]:
        """Return the results as outputs of the calls."""
        pairs = zip(self.calls, texts, strict=True)
        return [
            {"type": "function_call_output", "call_id": it.id, "output": text} for it, text in pairs
        ]

    def answer(self) -> list[Fields]:
        """Return the answer as items."""
        return [*self._seen, *self._shown_items()]

    def _begin_round(self) -> None:
        self._usage.add(self._last_usage)
        self._seen += self._shown_items()
        self._items, self._last_usage = {}, None

    def _written(self, document: Fields) -> bytes:
        return named_event(document)

    def _know(self, response: Fields) -> None:
        if not self._head:
            self._head = picked(response, ("id", "created_at"))

    def _numbered(self, document: Fields) -> Fields:
        """Return an event with the next number for the client."""
        given = document.get("sequence_number")
        number, self._sequence = self._sequence, self._sequence + 1
        if type(given) is not int or given == number:
            return document
        return {**document, "sequence_number": number}

    def _ended(self, document: Fields, response: Fields) -> Fields | None:
        self._decide(str(document.get("type")).removeprefix("response."))
        self._last_usage = response.get("usage")
        if self.goes_on:
            return None
        if not self._own_items() and not self.rounds:
            return self._numbered(document)
        return self._numbered({**document, "response": self._joined(response, self._head)})

    def _joined(self, response: Fields, head: Fields) -> Fields:
        """Return the response with the items that the client has seen, and the usage of all."""
        output = [*self._seen, *self._shown_items()]
        usage = self._usage.with_last(response.get("usage"))
        return {**response, **head, "output": output, "usage": usage}

    def _is_own(self, item: Fields) -> bool:
        return item.get("type") == _CALL and item.get("name") == self._tool

    def _own_items(self) -> list[Fields]:
        return [item for _, item in sorted(self._items.items()) if self._is_own(item)]

    def _shown_items(self, *, without_calls: bool = False) -> list[Fields]:
        """Return the items that the client sees, in order."""
        items = [item for _, item in sorted(self._items.items()) if not self._is_own(item)]
        if without_calls:
            return [item for item in items if item.get("type") not in _CLIENTS_CALLS]
        return items

    def _has_others(self) -> bool:
        return len(self._shown_items()) > len(self._shown_items(without_calls=True))

    def _decide(self, status: Any) -> None:
        calls = [
            OwnCall(str(item.get("call_id") or ""), str(item.get("arguments") or ""))
            for item in self._own_items()
        ]
        is_cut = status in ("incomplete", "failed", "cancelled")
        self._settle(calls, has_others=self._has_others(), is_cut=is_cut)


def restored(items: list[Fields], rounds: Sequence[Round]) -> list[Fields] | None:
    """Return the items of the client's turn as the answers that it was, None if it is another."""
    known = [item.get("encrypted_content") for it in rounds for item in it.items]
    rest = items[behind(items, sum(it.shown for it in rounds), _is_thought) :]
    last = [it for it in rest if not _is_thought(it) or it.get("encrypted_content") not in known]
    return [*(item for it in rounds for item in it.items), *last] if last else None


def _is_thought(item: Fields) -> bool:
    return item.get("type") == "reasoning"


def _as_input(item: Fields) -> Fields | None:
    """Return an item of an answer as one of an input; None if it cannot be sent back."""
    kind = str(item.get("type"))
    if kind == "reasoning":
        return item if item.get("encrypted_content") else None
    kept = picked(item, _KEPT[kind]) if kind in _KEPT else item
    return {**kept, "arguments": object_in(kept.get("arguments"))} if kind == _CALL else kept
