"""The answers of the demo model, in the formats of OpenAI's API."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from chat_proxy.demo.model.messages import Call
from chat_proxy.demo.model.template import count, split

WORD = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True)
class Choice:
    """One choice of an answer: text or tool calls, finish reason and token count."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = "stop"
    tokens: int = 0

    def message(self) -> dict[str, object]:
        """Return the choice as one message."""
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in self.calls
        ]
        message = {"role": "assistant", "content": self.text, "refusal": None, "reasoning": None}
        return message | ({"tool_calls": calls} if calls else {})

    def deltas(self) -> Iterator[dict[str, object]]:
        """Yield the choice word by word; a tool call sends its name first, then its arguments."""
        for word in words_of(self.text):
            yield {"content": word}
        for index, call in enumerate(self.calls):
            function: dict[str, object] = {"name": call.name}
            first = {"id": call.id, "type": "function", "index": index, "function": function}
            yield {"content": None, "tool_calls": [first]}
            for word in words_of(call.arguments):
                more = {"index": index, "function": {"arguments": word}}
                yield {"content": None, "tool_calls": [more]}


def words_of(text: str) -> list[str]:
    """Split a text after its white space; the joined words are the text again."""
    return WORD.findall(text)


def saying(text: str, limit: int) -> Choice:
    """Return a choice with text, cut off at the token limit."""
    tokens = split(text)
    if len(tokens) > limit:
        return Choice("".join(tokens[:limit]), finish="length", tokens=limit)
    return Choice(text, tokens=len(tokens))


def calling(calls: tuple[Call, ...], finish: str, limit: int) -> Choice:
    """Return a choice with tool calls, their arguments cut off at the token limit."""
    kept: list[Call] = []
    left = limit
    for call in calls:
        left -= count(call.name)
        if left < 0:
            break
        arguments = split(call.arguments)
        kept.append(replace(call, arguments="".join(arguments[:left])))
        left -= len(arguments)
    if left < 0:
        return Choice(calls=tuple(kept), finish="length", tokens=limit)
    return Choice(calls=calls, finish=finish, tokens=limit - left)


@dataclass(frozen=True)
class Completion:
    """All choices for one request, in the formats of OpenAI's API."""

    id: str
    created: int
    model: str
    prompt_tokens: int
    choices: tuple[Choice, ...]

    def usage(self) -> dict[str, object]:
        """Return the token usage of the request."""
        completion = sum(choice.tokens for choice in self.choices)
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + completion,
            "completion_tokens": completion,
            "prompt_tokens_details": None,
        }

    def whole(self) -> dict[str, object]:
        """Return the answer as one JSON object, without streaming."""
        choices: list[dict[str, object]] = [
            {
                "index": index,
                "message": choice.message(),
                "logprobs": None,
                "finish_reason": choice.finish,
                "stop_reason": None,
            }
            for index, choice in enumerate(self.choices)
        ]
        return self._object("chat.completion", choices) | {"usage": self.usage()}

    def opening(self) -> Iterator[dict[str, object]]:
        """Yield the first chunk of each choice, which has only the role."""
        for index in range(len(self.choices)):
            yield self._chunk(index, {"role": "assistant", "content": ""})

    def words(self) -> Iterator[dict[str, object]]:
        """Yield a chunk for each word, and at the end of each choice one with its finish reason."""
        for index, choice in enumerate(self.choices):
            for delta in choice.deltas():
                yield self._chunk(index, delta)
            yield self._chunk(index, {}, choice.finish)

    def usage_chunk(self) -> dict[str, object]:
        """Return the last chunk of a stream whose client asked for usage."""
        return self._object("chat.completion.chunk", []) | {"usage": self.usage()}

    def _chunk(
        self, index: int, delta: dict[str, object], finish: str | None = None
    ) -> dict[str, object]:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._object("chat.completion.chunk", [choice])

    def _object(self, kind: str, choices: list[dict[str, object]]) -> dict[str, object]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }
