"""The answers of the demo model in the format of Responses."""

from collections.abc import Iterator
from typing import Any

from chat_proxy.demo.model.answers import Completion, words_of

Fields = dict[str, Any]
CUT_OFF = "length"


class ResponsesAnswer:
    """The first choice of an answer as a response."""

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._choice = completion.choices[0]

    def whole(self) -> Fields:
        """Return the answer as one JSON object, without streaming."""
        items = [item for item, _ in self._items()]
        return self._response(self._status(), items)

    def events(self) -> Iterator[Fields]:
        """Yield the answer as numbered events, a delta for each word."""
        for number, event in enumerate(self._events()):
            yield {**event, "sequence_number": number}

    def _events(self) -> Iterator[Fields]:
        opened = self._response("in_progress", [])
        yield {"type": "response.created", "response": opened}
        yield {"type": "response.in_progress", "response": opened}
        for index, (item, words) in enumerate(self._items()):
            place = {"output_index": index}
            empty = "arguments" if item["type"] == "function_call" else "content"
            begun = {**item, empty: type(item[empty])(), "status": "in_progress"}
            yield {"type": "response.output_item.added", **place, "item": begun}
            yield from self._deltas(item, words, {"item_id": item["id"], **place})
            yield {"type": "response.output_item.done", **place, "item": item}
        yield {"type": f"response.{self._status()}", "response": self.whole()}

    def _deltas(self, item: Fields, words: list[str], place: Fields) -> Iterator[Fields]:
        """Yield the events inside one item."""
        if item["type"] == "function_call":
            kind = "response.function_call_arguments"
            yield from ({"type": f"{kind}.delta", **place, "delta": word} for word in words)
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield {"type": f"{kind}.done", **place, **done}
            return
        place = {**place, "content_index": 0}
        part = item["content"][0]
        yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
        kind = "response.output_text"
        for word in words:
            yield {"type": f"{kind}.delta", **place, "delta": word, "logprobs": []}
        yield {"type": f"{kind}.done", **place, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **place, "part": part}

    def _items(self) -> Iterator[tuple[Fields, list[str]]]:
        """Yield the items of the answer, each with the words of its text."""
        if text := self._choice.text:
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            item = {"id": f"msg_{self._completion.id}", "type": "message", "role": "assistant"}
            yield {**item, "status": self._status(), "content": [part]}, words_of(text)
        for call in self._choice.calls:
            item = {"id": f"fc_{call.id}", "type": "function_call", "call_id": call.id}
            named = {"name": call.name, "arguments": call.arguments, "status": self._status()}
            yield {**item, **named}, words_of(call.arguments)

    def _status(self) -> str:
        return "incomplete" if self._choice.finish == CUT_OFF else "completed"

    def _response(self, status: str, output: list[Fields]) -> Fields:
        incomplete = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": f"resp_{self._completion.id}",
            "object": "response",
            "created_at": self._completion.created,
            "status": status,
            "model": self._completion.model,
            "output": output,
            "error": None,
            "incomplete_details": incomplete,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "temperature": 1.0,
            "top_p": 1.0,
            "usage": None if status == "in_progress" else self._usage(),
        }

    def _usage(self) -> Fields:
        prompt = self._completion.prompt_tokens
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": self._choice.tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + self._choice.tokens,
        }
