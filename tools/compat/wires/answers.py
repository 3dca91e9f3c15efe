"""How the scripted model answers the requests of Responses and Messages."""

import json
from collections.abc import Iterator
from typing import Any

from chat_proxy.demo.model.answers import Choice, words_of
from chat_proxy.demo.model.messages import Call

Fields = dict[str, Any]


class ResponsesAnswer:
    """An answer in the form of Responses."""

    def __init__(self, number: int, model: str, tokens: int, choice: Choice) -> None:
        self._model = model
        self._number = number
        self._choice = choice
        self._tokens = tokens

    def whole(self) -> Fields:
        """Return the answer as a document."""
        items = [item for item, _ in self._items()]
        return self._response("completed", items)

    def events(self) -> Iterator[Fields]:
        """Yield the answer as events, numbered."""
        for number, document in enumerate(self._events()):
            yield {**document, "sequence_number": number}

    def _events(self) -> Iterator[Fields]:
        yield {"type": "response.created", "response": self._response("in_progress", [])}
        for index, (item, pieces) in enumerate(self._items()):
            place = {"item_id": item["id"], "output_index": index}
            is_call = item["type"] == "function_call"
            begun = {**item, "arguments": ""} if is_call else {**item, "content": []}
            begun["status"] = "in_progress"
            yield {"type": "response.output_item.added", "output_index": index, "item": begun}
            yield from self._pieces(item, pieces, place)
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": "response.completed", "response": self.whole()}

    def _pieces(self, item: Fields, pieces: list[str], place: Fields) -> Iterator[Fields]:
        if item["type"] == "function_call":
            kind = "response.function_call_arguments"
            yield from ({"type": f"{kind}.delta", **place, "delta": piece} for piece in pieces)
            told = {"arguments": item["arguments"], "name": item["name"]}
            yield {"type": f"{kind}.done", **place, **told}
            return
        place = {**place, "content_index": 0}
        part = item["content"][0]
        yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
        for piece in pieces:
            delta = {"delta": piece, "logprobs": []}
            yield {"type": "response.output_text.delta", **place, **delta}
        done = {"text": part["text"], "logprobs": []}
        yield {"type": "response.output_text.done", **place, **done}
        yield {"type": "response.content_part.done", **place, "part": part}

    def _items(self) -> list[tuple[Fields, list[str]]]:
        """Return the items of the answer, each with the pieces of its text."""
        items: list[tuple[Fields, list[str]]] = []
        if text := self._choice.text:
            part: Fields = {"type": "output_text", "text": text}
            part |= {"annotations": [], "logprobs": []}
            item: Fields = {"id": f"msg_{self._number}", "type": "message", "role": "assistant"}
            items.append(({**item, "status": "completed", "content": [part]}, words_of(text)))
        for call in self._choice.calls:
            item = {"id": f"fc_{call.id}", "type": "function_call", "call_id": call.id}
            item |= {"name": call.name, "arguments": call.arguments, "status": "completed"}
            items.append((item, words_of(call.arguments)))
        return items

    def _response(self, status: str, output: list[Fields]) -> Fields:
        usage = {
            "input_tokens": self._tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": self._choice.tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self._tokens + self._choice.tokens,
        }
        return {
            "id": f"resp_{self._number}",
            "object": "response",
            "created_at": 1,
            "status": status,
            "model": self._model,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "temperature": 1.0,
            "top_p": 1.0,
            "usage": usage if status == "completed" else None,
        }


class MessagesAnswer:
    """An answer in the form of Messages."""

    def __init__(self, number: int, model: str, tokens: int, choice: Choice) -> None:
        self._head = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "stop_sequence": None,
        }
        self._choice = choice
        self._tokens = tokens

    def whole(self) -> Fields:
        """Return the answer as a document."""
        blocks = [{**block, **rest} for block, rest, _ in self._blocks()]
        usage = {"input_tokens": self._tokens, "output_tokens": self._choice.tokens}
        reason = "tool_use" if self._choice.calls else "end_turn"
        return {**self._head, "content": blocks, "stop_reason": reason, "usage": usage}

    def events(self) -> Iterator[Fields]:
        """Yield the answer as events."""
        whole = self.whole()
        usage = {**whole["usage"], "output_tokens": 1}
        begun = {**whole, "content": [], "stop_reason": None, "usage": usage}
        yield {"type": "message_start", "message": begun}
        for index, (block, _, deltas) in enumerate(self._blocks()):
            yield {"type": "content_block_start", "index": index, "content_block": block}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        tokens = {"output_tokens": self._choice.tokens}
        yield {"type": "message_delta", "delta": ending, "usage": tokens}
        yield {"type": "message_stop"}

    def _blocks(self) -> Iterator[tuple[Fields, Fields, list[Fields]]]:
        """Yield each block as it begins, what it has in the end, and the deltas between."""
        if text := self._choice.text:
            deltas = [{"type": "text_delta", "text": word} for word in words_of(text)]
            yield {"type": "text", "text": ""}, {"text": text}, deltas
        for call in self._choice.calls:
            yield self._call(call)

    def _call(self, call: Call) -> tuple[Fields, Fields, list[Fields]]:
        block = {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": call.arguments}
        return block, {"input": json.loads(call.arguments)}, [delta]
