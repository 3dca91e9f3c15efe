"""How the scripted model reads a request: as the text of a chat template, cut into tokens."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chat_proxy.tokens.tiktoken_counter import load_encoding

Json = dict[str, Any]

_MOST_TEXTS = 100_000
# As many tokens as a small image costs.
_IMAGE = " image" * 85
_known: dict[str, tuple[int, ...]] = {}


@dataclass(frozen=True)
class Prompt:
    """A request's prompt: tools first, then the messages, in ChatML."""

    fields: Json

    @property
    def messages(self) -> list[Json]:
        """The messages as they came."""
        return list(self.fields["messages"])

    @cached_property
    def text(self) -> str:
        """The whole prompt."""
        return "".join(self._pieces())

    @cached_property
    def tokens(self) -> list[int]:
        """The whole prompt in tokens; no token reaches over a message's end."""
        return [token for piece in self._pieces() for token in tokens_of(piece)]

    def _pieces(self) -> Iterator[str]:
        tools = self.fields.get("tools")
        if tools:
            yield f"<|im_start|>tools\n{json.dumps(tools, sort_keys=True)}<|im_end|>\n"
        for message in self.messages:
            yield rendered(message)
        yield "<|im_start|>assistant\n"


def rendered(message: Json) -> str:
    """Return a message as the template writes it, ids left out as templates do."""
    calls = [call["function"] for call in message.get("tool_calls") or []]
    called = "".join(f"<call>{call['name']} {call['arguments']}</call>\n" for call in calls)
    seen = _IMAGE * len(images_of(message))
    return f"<|im_start|>{message['role']}\n{text_of(message)}\n{seen}{called}<|im_end|>\n"


def images_of(message: Json) -> list[Json]:
    """Return a message's images."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return [part for part in parts if part.get("type") == "image_url"]


def text_of(message: Json) -> str:
    """Return a message's text, whether it came as a string or as parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""


def tokens_of(text: str) -> tuple[int, ...]:
    """Return a text's tokens by the vendored ranks; each text is cut once."""
    found = _known.get(text)
    if found is None:
        if len(_known) > _MOST_TEXTS:
            _known.clear()
        found = _known[text] = tuple(load_encoding("o200k_base").encode_ordinary(text))
    return found


def count(text: str) -> int:
    """Return how many tokens a text has."""
    return len(tokens_of(text))


def broken_pairs(messages: list[Json]) -> int:
    """Return how many tool results have no call before them, and how many calls no result."""
    called = {call["id"] for message in messages for call in message.get("tool_calls") or []}
    answered = {message.get("tool_call_id") for message in messages if message["role"] == "tool"}
    return len(called ^ answered)
