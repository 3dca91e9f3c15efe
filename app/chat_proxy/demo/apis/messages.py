"""The answers of the demo model in the format of Messages."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from chat_proxy.demo.model.answers import Completion, words_of

Fields = dict[str, Any]
STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
ERROR_KINDS = {404: "not_found_error"}


class MessagesAnswer:
    """The first choice of an answer as a message."""

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._choice = completion.choices[0]

    def whole(self) -> Fields:
        """Return the answer as one JSON object, without streaming."""
        blocks = [{**block, **rest} for block, rest, _ in self._blocks()]
        return self._message(blocks, self._stop_reason(), self._choice.tokens)

    def events(self) -> Iterator[Fields]:
        """Yield the answer as events, a delta for each word."""
        yield {"type": "message_start", "message": self._message([], None, 0)}
        for index, (block, _, deltas) in enumerate(self._blocks()):
            yield {"type": "content_block_start", "index": index, "content_block": block}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        ending = {"stop_reason": self._stop_reason(), "stop_sequence": None}
        usage = {"output_tokens": self._choice.tokens}
        yield {"type": "message_delta", "delta": ending, "usage": usage}
        yield {"type": "message_stop"}

    def _message(self, blocks: list[Fields], stop_reason: str | None, tokens: int) -> Fields:
        return {
            "id": f"msg_{self._completion.id}",
            "type": "message",
            "role": "assistant",
            "model": self._completion.model,
            "content": blocks,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": self._completion.prompt_tokens, "output_tokens": tokens},
        }

    def _stop_reason(self) -> str:
        return STOP_REASONS["tool_calls" if self._choice.calls else self._choice.finish]

    def _blocks(self) -> Iterator[tuple[Fields, Fields, list[Fields]]]:
        """Yield each block as it begins, what it has in the end, and the deltas between."""
        if text := self._choice.text:
            deltas = [{"type": "text_delta", "text": word} for word in words_of(text)]
            yield {"type": "text", "text": ""}, {"text": text}, deltas
        for call in self._choice.calls:
            block = {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": {}}
            words = words_of(call.arguments)
            deltas = [{"type": "input_json_delta", "partial_json": word} for word in words]
            yield block, {"input": arguments_of(call.arguments)}, deltas


def arguments_of(arguments: str) -> object:
    """Return the arguments of a call, none where they were cut off."""
    try:
        return json.loads(arguments)
    except json.JSONDecodeError:
        return {}


def error_of(status: int, error: Mapping[str, Any]) -> Fields:
    """Return an error of chat completions as Messages writes it."""
    kind = ERROR_KINDS.get(status, "invalid_request_error")
    message = error["error"]["message"]
    return {"type": "error", "error": {"type": kind, "message": message}}
