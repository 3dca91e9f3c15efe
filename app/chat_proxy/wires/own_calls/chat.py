"""The calls of the proxy's own tool in chat completions."""

from collections.abc import Sequence
from typing import Any, Final

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.wires.own_calls.edit import OwnCall, OwnCallEdit, Round, SummedUsage, object_in
from chat_proxy.wires.reading import Fields, picked

_TEXTS: Final = ("content", "reasoning_content", "reasoning")
"""What comes in pieces. Some upstreams want the model's thoughts back with its calls."""
_DETAILS: Final = "reasoning_details"
_CUT: Final = ("length", "content_filter")
_HEAD: Final = ("id", "created")
_PARAGRAPH: Final = "\n\n"


class ChatOwnCalls(OwnCallEdit):
    """Takes the calls of a tool out of completions and their chunks."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self._head: Fields = {}
        self._usage = SummedUsage()
        self._last_usage: Any = None
        self._texts: dict[str, str] = {}
        self._apart: dict[str, str] = {}
        """What sets each text apart from that of the round before."""
        self._details: list[Any] = []
        """The model's thoughts in the form that some upstreams want back unchanged."""
        self._seen: list[dict[str, str]] = []
        """The texts of the rounds before, as the client has seen them."""
        self._logprobs: list[Any] = []
        self._own: dict[int, Fields] = {}
        self._theirs: dict[int, Fields] = {}

    def document(self, document: Fields) -> Fields:
        """Return a completion without calls of the tool."""
        choice = _first_choice(document)
        message = choice.get("message") if choice else None
        if choice is None or type(message) is not dict:
            return document
        self._know(document)
        for index, call in enumerate(_calls_in(message)):
            self._sort_in(index, call)
        self._hear(message)
        self._end_with(choice.get("finish_reason"))
        self._last_usage = document.get("usage")
        if self.goes_on:
            self._keep_logprobs(choice)
            return document
        return self._joined(document, choice, message) if self._own or self.rounds else document

    def event(self, document: Fields) -> Fields | None:
        """Return a chunk without calls of the tool, None if nothing is left."""
        if "error" in document:
            self._fail()
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
        thoughts: Fields = {_DETAILS: self._details} if self._details else {}
        texts = {"content": None, **self._texts, **thoughts}
        return [{"role": "assistant", **texts, "tool_calls": calls}]

    @property
    def shown(self) -> int:
        """The characters that the client has seen of this round."""
        return len(self._texts.get("content", ""))

    def results(self, texts: list[str]) -> list[Fields]:
        """Return the results as tool messages."""
        pairs = zip(self.calls, texts, strict=True)
        return [{"role": "tool", "tool_call_id": it.id, "content": text} for it, text in pairs]

    def answer(self) -> list[Fields]:
        """Return the answer as an assistant message."""
        message: Fields = {"role": "assistant", "content": self._whole("content") or None}
        if self._theirs:
            message["tool_calls"] = [_native(call) for call in self._theirs.values()]
        return [message]

    def _begin_round(self) -> None:
        self._usage.add(self._last_usage)
        self._last_usage = None
        self._seen.append({name: self._shown_text(name) for name in self._texts})
        self._texts, self._apart, self._details = {}, {}, []
        self._own, self._theirs = {}, {}

    def _written(self, document: Fields) -> bytes:
        return b"data: " + serialise(document) + b"\n\n"

    def _whole(self, name: str) -> str:
        """Return a text of all rounds, as the client sees it."""
        return "".join(it.get(name, "") for it in self._seen) + self._shown_text(name)

    def _shown_text(self, name: str) -> str:
        return self._apart.get(name, "") + self._texts.get(name, "")

    def _hear(self, said: Fields) -> Fields:
        """Know the texts of a message or a delta; return those that must be set apart.

        Without that the client would read "I will look.It is 5."
        """
        changed: Fields = {}
        for name in _TEXTS:
            text = said.get(name)
            if type(text) is not str or not text:
                continue
            if name not in self._texts:
                before = self._whole(name)[-1:]
                if before and not before.isspace() and not text[0].isspace():
                    self._apart[name] = _PARAGRAPH
                    changed[name] = _PARAGRAPH + text
            self._texts[name] = self._texts.get(name, "") + text
        details = said.get(_DETAILS)
        self._details += details if type(details) is list else ()
        return changed

    def _joined(self, document: Fields, choice: Fields, message: Fields) -> Fields:
        """Return a completion with the texts and the usage of all rounds."""
        wholes = {name: whole for name in _TEXTS if (whole := self._whole(name))}
        message = {**message, **wholes}
        message.pop("tool_calls", None)
        reason = choice.get("finish_reason")
        if self._theirs:
            message["tool_calls"] = list(self._theirs.values())
        elif self._own:
            reason = reason if reason in _CUT else "stop"
        changed = {**choice, "message": message, "finish_reason": reason}
        logprobs = choice.get("logprobs")
        if self._logprobs and type(logprobs) is dict:
            content = [*self._logprobs, *(logprobs.get("content") or ())]
            changed["logprobs"] = {**logprobs, "content": content}
        usage = self._usage.with_last(document.get("usage"))
        others = {**document, **self._head, "choices": [changed]}
        return {**others, "usage": usage} if "usage" in document else others

    def _keep_logprobs(self, choice: Fields) -> None:
        logprobs = choice.get("logprobs")
        content = logprobs.get("content") if type(logprobs) is dict else None
        self._logprobs += content if type(content) is list else ()

    def _know(self, document: Fields) -> None:
        """Remember the beginning of the first answer, which all that follows shares."""
        if not self.rounds and not self._head:
            self._head = picked(document, _HEAD)

    def _edited_choice(self, choice: Fields) -> Fields | None:
        """Return a choice without calls of the tool; None if that leaves nothing."""
        delta = choice.get("delta")
        delta = delta if type(delta) is dict else {}
        heard = self._hear(delta)
        changed = self._edited_delta({**delta, **heard} if heard else delta)
        reason = choice.get("finish_reason")
        if type(reason) is str:
            self._end_with(reason)
            if self.goes_on:
                reason = None
            elif self._own and not self._theirs and reason not in _CUT:
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

    def _end_with(self, reason: Any) -> None:
        calls = [
            OwnCall(str(call.get("id") or ""), str(call["function"].get("arguments") or ""))
            for call in self._own.values()
        ]
        self._settle(calls, has_others=bool(self._theirs), is_cut=reason in _CUT)


def restored(message: list[Fields], rounds: Sequence[Round]) -> list[Fields] | None:
    """Return the client's message as the answers that it was, None if it is another one."""
    if len(message) != 1:
        return None
    (given,) = message
    content = given.get("content")
    if type(content) is list and len(content) == 1 and type(content[0]) is dict:
        content = content[0].get("text")
    last = given
    said = _said_in("content", rounds)
    if said:
        rest = _behind(said, content)
        if rest is None:
            return None
        last = {**given, "content": rest or None}
    for name in _TEXTS[1:]:
        rest = _behind(_said_in(name, rounds), last.get(name))
        last = last if rest is None or name not in last else {**last, name: rest}
    if not last.get("content") and not last.get("tool_calls"):
        return None
    return [*(item for it in rounds for item in it.items), last]


def _said_in(name: str, rounds: Sequence[Round]) -> list[str]:
    return [text for it in rounds if (text := it.items[0].get(name))]


def _behind(said: list[str], text: Any) -> str | None:
    """Return what of a text is behind those of the rounds; None if it does not begin with them."""
    if type(text) is not str:
        return None
    rest: str = text
    for piece in said:
        if not rest.startswith(piece):
            return None
        rest = rest[len(piece) :]
        rest = rest if piece[-1].isspace() else rest.removeprefix(_PARAGRAPH)
    return rest


def _extend(call: Fields, piece: Fields) -> None:
    function = piece.get("function")
    arguments = function.get("arguments") if type(function) is dict else None
    if type(arguments) is str:
        known = call.setdefault("function", {})
        known["arguments"] = (known.get("arguments") or "") + arguments


def _native(call: Fields) -> Fields:
    """Return a call as part of a later prompt, with all that its upstream gave it."""
    function = call.get("function") or {}
    others = {name: value for name, value in call.items() if name != "index"}
    made = {"name": function.get("name"), "arguments": object_in(function.get("arguments"))}
    return {**others, "id": call.get("id"), "type": "function", "function": made}


def _calls_in(message: Fields) -> list[Fields]:
    calls = message.get("tool_calls")
    return [call for call in calls if type(call) is dict] if type(calls) is list else []


def _first_choice(document: Fields) -> Fields | None:
    choices = document.get("choices")
    if type(choices) is not list or not choices or type(choices[0]) is not dict:
        return None
    first: Fields = choices[0]
    return first
