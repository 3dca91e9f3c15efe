"""The calls of the proxy's own tool in answers of the Messages API."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.wires.answers import named_event
from chat_proxy.wires.own_calls.edit import (
    OwnCall,
    OwnCallEdit,
    Round,
    SummedUsage,
    behind,
    object_in,
)
from chat_proxy.wires.reading import Fields

_DELTAS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
_CUT: Final = ("max_tokens", "model_context_window_exceeded", "refusal")


class MessagesOwnCalls(OwnCallEdit):
    """Takes the calls of a tool out of messages and their events."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self._id: Any = None
        self._usage = SummedUsage()
        self._round_usage: Fields = {}
        self._seen: list[Fields] = []
        """The blocks of the rounds before that the client has seen."""
        self._blocks: dict[int, Fields] = {}
        self._json: dict[int, str] = {}

    def document(self, document: Fields) -> Fields:
        """Return a message without calls of the tool."""
        content = document.get("content")
        if document.get("type") != "message" or type(content) is not list:
            return document
        self._id = document.get("id") if not self.rounds else self._id
        self._blocks = dict(enumerate(block for block in content if type(block) is dict))
        self._decide(document.get("stop_reason"))
        usage = document.get("usage")
        self._round_usage = usage if type(usage) is dict else {}
        if self.goes_on or not (self._own_blocks() or self.rounds):
            return document
        return {
            **document,
            "id": self._id,
            "content": [*self._seen, *self._shown_blocks()],
            "stop_reason": self._reason(document.get("stop_reason")),
            "usage": self._usage.with_last(usage),
        }

    def event(self, document: Fields) -> Fields | None:
        """Return an event without calls of the tool, None if nothing is left."""
        kind = document.get("type")
        if kind == "message_start":
            return self._started(document)
        if kind in ("content_block_start", "content_block_delta", "content_block_stop"):
            return self._block_event(kind, document)
        if kind == "message_delta":
            return self._ended(document)
        if kind == "error":
            self._fail()
        return None if kind == "message_stop" and self.goes_on else document

    def said(self) -> list[Fields]:
        """Return the model's turn with its calls of the tool alone."""
        shown = self._shown_blocks(without_calls=True)
        blocks = [block for block in shown if not _is_empty(block)]
        return [{"role": "assistant", "content": [*blocks, *self._own_blocks()]}]

    @property
    def shown(self) -> int:
        """The blocks of this round that the client sends back, whatever it does with thoughts."""
        return sum(not _is_uncounted(block) for block in self._shown_blocks(without_calls=True))

    def results(self, texts: list[str]) -> list[Fields]:
        """Return the results as one user message."""
        pairs = zip(self.calls, texts, strict=True)
        blocks = [
            {"type": "tool_result", "tool_use_id": it.id, "content": text} for it, text in pairs
        ]
        return [{"role": "user", "content": blocks}]

    def answer(self) -> list[Fields]:
        """Return the answer as an assistant message."""
        return [{"role": "assistant", "content": [*self._seen, *self._shown_blocks()]}]

    def _begin_round(self) -> None:
        self._usage.add(self._round_usage)
        self._seen += self._shown_blocks()
        self._round_usage, self._blocks, self._json = {}, {}, {}

    def _written(self, document: Fields) -> bytes:
        return named_event(document)

    def _started(self, document: Fields) -> Fields | None:
        message = document.get("message")
        usage = message.get("usage") if type(message) is dict else None
        self._round_usage = dict(usage) if type(usage) is dict else {}
        return None if self.rounds else document

    def _block_event(self, kind: str, document: Fields) -> Fields | None:
        """Return the event of a block under the number that the block has for the client."""
        index = document.get("index")
        if type(index) is not int:
            return document
        block = document.get("content_block")
        if kind == "content_block_start" and type(block) is dict:
            self._blocks[index] = dict(block)
        delta = document.get("delta")
        if kind == "content_block_delta" and type(delta) is dict and index in self._blocks:
            self._extend(index, delta)
        if kind == "content_block_stop":
            self._complete(index)
        if self._is_own(self._blocks.get(index, {})):
            return None
        before = [at for at, it in self._blocks.items() if at < index and not self._is_own(it)]
        number = len(self._seen) + len(before)
        return document if number == index else {**document, "index": number}

    def _ended(self, document: Fields) -> Fields | None:
        """Return the end of the answer with the usage of all rounds; None if it goes on."""
        usage, delta = document.get("usage"), document.get("delta")
        delta = delta if type(delta) is dict else {}
        reason = delta.get("stop_reason")
        self._decide(reason)
        if type(usage) is dict:
            self._round_usage |= {key: it for key, it in usage.items() if it is not None}
        if self.goes_on:
            return None
        if not self._own_blocks() and not self.rounds:
            return document
        ending = {**delta, "stop_reason": self._reason(reason)}
        return {**document, "delta": ending, "usage": self._usage.with_last(self._round_usage)}

    def _extend(self, index: int, delta: Fields) -> None:
        name = _DELTAS.get(str(delta.get("type")), "")
        piece, block = delta.get(name), self._blocks[index]
        if type(piece) is not str:
            if delta.get("type") == "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
            return
        if name == "partial_json":
            self._json[index] = self._json.get(index, "") + piece
        else:
            block[name] = str(block.get(name) or "") + piece

    def _complete(self, index: int) -> None:
        """Give a call the arguments that came in pieces."""
        if index in self._json and index in self._blocks:
            self._blocks[index]["input"] = orjson.loads(object_in(self._json[index]))

    def _is_own(self, block: Fields) -> bool:
        return block.get("type") == "tool_use" and block.get("name") == self._tool

    def _own_blocks(self) -> list[Fields]:
        return [block for _, block in sorted(self._blocks.items()) if self._is_own(block)]

    def _shown_blocks(self, *, without_calls: bool = False) -> list[Fields]:
        """Return the blocks that the client sees, in order."""
        blocks = [block for _, block in sorted(self._blocks.items()) if not self._is_own(block)]
        if without_calls:
            return [block for block in blocks if block.get("type") != "tool_use"]
        return blocks

    def _has_others(self) -> bool:
        return any(block.get("type") == "tool_use" for block in self._shown_blocks())

    def _reason(self, reason: Any) -> Any:
        """Return why the answer ends: a dropped call is no reason."""
        is_dropped = reason == "tool_use" and not self._has_others()
        return "end_turn" if is_dropped else reason

    def _decide(self, reason: Any) -> None:
        calls = [
            OwnCall(str(block.get("id") or ""), serialise(block.get("input")).decode())
            for block in self._own_blocks()
        ]
        self._settle(calls, has_others=self._has_others(), is_cut=reason in _CUT)


def restored(message: list[Fields], rounds: Sequence[Round]) -> list[Fields] | None:
    """Return the client's message as the answers that it was, None if it is another one."""
    if len(message) != 1:
        return None
    (given,) = message
    content, seen = given.get("content"), sum(it.shown for it in rounds)
    if type(content) is list:
        known = [block for it in rounds for block in it.items[0]["content"]]
        rest = content[behind(content, seen, _is_uncounted) :]
        content = [block for block in rest if not _is_thought(block) or block not in known]
    elif seen:
        return None
    if not content:
        return None
    return [*(item for it in rounds for item in it.items), {**given, "content": content}]


def _is_empty(block: Any) -> bool:
    """Return whether a block is a text without words: the API writes such, and refuses them."""
    return type(block) is dict and block.get("type") == "text" and not str(block["text"]).strip()


def _is_uncounted(block: Any) -> bool:
    return _is_thought(block) or _is_empty(block)


def _is_thought(block: Any) -> bool:
    return type(block) is dict and block.get("type") in ("thinking", "redacted_thinking")
