"""The calls of the proxy's own tool in chat completions."""

from collections.abc import Sequence
from typing import Any

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.wires.own_calls.edit import OwnCall, OwnCallEdit, Round, SummedUsage
from chat_proxy.wires.reading import Fields


class ChatOwnCalls(OwnCallEdit):
    """Takes the calls of a tool out of completions and their chunks."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self._head: Fields = {}
        self._usage = SummedUsage()
        self._last_usage: Any = None
        self._text = ""
        self._seen: list[str] = []
        """The texts of the rounds before."""
        self._own: dict[int, Fields] = {}
        self._theirs: dict[int, Fields] = {}

    def document(self, document: Fields) -> Fields:
        """Return a completion without calls of the tool."""
        choice = _first_choice(document)
        message = choice.get("message") if choice else None
        if choice is None or type(message) is not dict:
            return document
        self._know(document)
        content = message.get("content")
        self._text = content if type(content) is str else ""
        for index, call in enumerate(_calls_in(message)):
            self._sort_in(index, call)
        self._decide()
        self._last_usage = document.get("usage")
        if self.goes_on or not (self._own or self.rounds):
            return document
        message = {**message, "content": self._whole_text() or content}
        message.pop("tool_calls", None)
        reason = choice.get("finish_reason")
        if self._theirs:
            message["tool_calls"] = list(self._theirs.values())
        elif self._own:
            reason = "stop"
        changed = {**choice, "message": message, "finish_reason": reason}
        usage = self._usage.with_last(document.get("usage"))
        others = {**document, **self._head, "choices": [changed]}
        return {**others, "usage": usage} if "usage" in document else others

    def event(self, document: Fields) -> Fields | None:
        """Return a chunk without calls of the tool, None if nothing is left."""
        if "error" in document:
            return document
        self._know(document)
        usage, choice = document.get("usage"), _first_choice(document)
        self._last_usage = usage if type(usage) is dict else self._last_usage
        edited = None if choice is None else self._edited_choice(choice)
        if edited is None and (choice is not None or self.goes_on):
            return None
        changes = dict(self._head) if self.rounds else {}
        if edited is not choice:
            changes["choices"] = [edited]
        summed = None if self.goes_on else self._usage.with_last(usage)
        if summed is not usage:
            changes["usage"] = summed
        return {**document, **changes} if changes else document

    def said(self) -> list[Fields]:
        """Return the model's turn with its calls of the tool alone."""
        calls = [_native(call) for call in self._own.values()]
        return [{"role": "assistant", "content": self._text or None, "tool_calls": calls}]

    @property
    def shown(self) -> int:
        """The characters that the client has seen of this round."""
        return len(self._text)

    def results(self, texts: list[str]) -> list[Fields]:
        """Return the results as tool messages."""
        pairs = zip(self.calls, texts, strict=True)
        return [{"role": "tool", "tool_call_id": it.id, "content": text} for it, text in pairs]

    def answer(self) -> list[Fields]:
        """Return the answer as an assistant message."""
        message: Fields = {"role": "assistant", "content": self._whole_text() or None}
        if self._theirs:
            message["tool_calls"] = [_native(call) for call in self._theirs.values()]
        return [message]

    def _begin_round(self) -> None:
        self._usage.add(self._last_usage)
        self._seen.append(self._text)
        self._text = ""
        self._own, self._theirs = {}, {}

    def _written(self, document: Fields) -> bytes:
        return b"data: " + serialise(document) + b"\n\n"

    def _whole_text(self) -> str:
        return "".join((*self._seen, self._text))

    def _know(self, document: Fields) -> None:
        """Remember the beginning of the first answer, which all that follows shares."""
        if not self.rounds and not self._head:
            self._head = {name: document[name] for name in ("id", "created") if name in document}

    def _edited_choice(self, choice: Fields) -> Fields | None:
        """Return a choice without calls of the tool; None if that leaves nothing."""
        delta = choice.get("delta")
        delta = delta if type(delta) is dict else {}
        if type(delta.get("content")) is str:
            self._text += delta["content"]
        changed = self._edited_delta(delta)
        reason = choice.get("finish_reason")
        if type(reason) is str:
            self._decide()
            if self.goes_on:
                reason = None
            elif self._own and not self._theirs:
                reason = "stop"
        if changed is delta and reason == choice.get("finish_reason"):
            return choice
        if reason is None and not any(value for value in changed.values()):
            return None
        return {**choice, "delta": changed, "finish_reason": reason}

    def _edited_delta(self, delta: Fields) -> Fields:
        calls = delta.get("tool_calls")
        is_again = self.rounds and "role" in delta
        if type(calls) is not list and not is_again:
            return delta
        changed = {name: value for name, value in delta.items() if name != "tool_calls"}
        if is_again:
            changed.pop("role")
        kept = [self._their_delta(call) for call in calls or () if not self._is_own_delta(call)]
        if type(calls) is list and len(kept) == len(calls) and not self._own and not is_again:
            return delta
        return {**changed, "tool_calls": kept} if kept else changed

    def _is_own_delta(self, call: Any) -> bool:
        """Return whether a piece belongs to a call of the tool; the first names it."""
        index = call.get("index", 0) if type(call) is dict else None
        if type(index) is not int:
            return False
        if index not in self._own and index not in self._theirs:
            function = call.get("function")
            self._sort_in(
                index, {**call, "function": dict(function) if type(function) is dict else {}}
            )
        elif index in self._own:
            _extend(self._own[index], call)
        else:
            _extend(self._theirs[index], call)
        return index in self._own

    def _their_delta(self, call: Any) -> Any:
        """Return a piece of the client's call under the number that it has for the client."""
        index = call.get("index", 0) if type(call) is dict else None
        if type(index) is not int or not self._own:
            return call
        return {**call, "index": list(self._theirs).index(index)}

    def _sort_in(self, index: int, call: Fields) -> None:
        function = call.get("function")
        name = function.get("name") if type(function) is dict else None
        (self._own if name == self._tool else self._theirs)[index] = call

    def _decide(self) -> None:
        """Know the calls of the tool when the answer ends."""
        self.calls = [
            OwnCall(str(call.get("id") or ""), str(call["function"].get("arguments") or ""))
            for call in self._own.values()
        ]
        self.goes_on = bool(self.calls) and not self._theirs and self.may_go_on


def restored(message: list[Fields], rounds: Sequence[Round]) -> list[Fields] | None:
    """Return the client's message as the answers that it was, None if it is another one."""
    (given,) = message
    content = given.get("content")
    if type(content) is list and len(content) == 1 and type(content[0]) is dict:
        content = content[0].get("text")
    said = "".join(item.get("content") or "" for it in rounds for item in it.items[:1])
    last = given
    if said:
        if type(content) is not str or not content.startswith(said):
            return None
        last = {**given, "content": content[len(said) :] or None}
    if not last.get("content") and not last.get("tool_calls"):
        return None
    return [*(item for it in rounds for item in it.items), last]


def _extend(call: Fields, piece: Fields) -> None:
    function = piece.get("function")
    arguments = function.get("arguments") if type(function) is dict else None
    if type(arguments) is str:
        known = call.setdefault("function", {})
        known["arguments"] = (known.get("arguments") or "") + arguments


def _native(call: Fields) -> Fields:
    function = call.get("function") or {}
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {
            "name": function.get("name"),
            "arguments": function.get("arguments") or "",
        },
    }


def _calls_in(message: Fields) -> list[Fields]:
    calls = message.get("tool_calls")
    return [call for call in calls if type(call) is dict] if type(calls) is list else []


def _first_choice(document: Fields) -> Fields | None:
    choices = document.get("choices")
    if type(choices) is not list or not choices or type(choices[0]) is not dict:
        return None
    first: Fields = choices[0]
    return first
