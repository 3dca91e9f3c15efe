"""The three APIs as a client speaks them: a history in the words of chat, each in its own form."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple

Fields = dict[str, Any]
Messages = list[Fields]
OWN: Final = "own"
"""The field of an assistant message that has what the server answered, item by item."""


class Said(NamedTuple):
    """What an answer says."""

    text: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    own: tuple[Fields, ...] = ()
    """The items or blocks of the answer, which a client sends back with its history."""


class WireForm(ABC):
    """One API as its clients speak it."""

    name: ClassVar[str]
    path: ClassVar[str]

    @abstractmethod
    def body(self, messages: Messages, max_tokens: int, tools: Sequence[Fields]) -> Fields:
        """Return the fields of a request that depend on the API."""

    @abstractmethod
    def read(self, documents: list[Fields]) -> Said:
        """Return what an answer says: one document, or the events of a stream."""

    def streaming(self) -> Fields:
        """Return the fields that ask for a stream."""
        return {"stream": True}


class ChatForm(WireForm):
    """Chat completions."""

    name = "chat"
    path = "/v1/chat/completions"

    def body(self, messages: Messages, max_tokens: int, tools: Sequence[Fields]) -> Fields:
        """Return the messages as they are."""
        plain = [
            {key: value for key, value in message.items() if key != OWN} for message in messages
        ]
        declared = {"tools": list(tools), "tool_choice": "none"} if tools else {}
        return {"messages": plain, "max_tokens": max_tokens, **declared}

    def streaming(self) -> Fields:
        """Return the fields that ask for a stream with its usage."""
        return {"stream": True, "stream_options": {"include_usage": True}}

    def read(self, documents: list[Fields]) -> Said:
        """Return the first choice."""
        usage = _last(documents, "usage")
        details = usage.get("prompt_tokens_details") or {}
        text = "".join(map(_chat_text, documents))
        return Said(text, usage.get("prompt_tokens", 0), details.get("cached_tokens") or 0)


class ResponsesForm(WireForm):
    """The Responses API, with the output items of earlier answers in the history."""

    name = "responses"
    path = "/v1/responses"

    def body(self, messages: Messages, max_tokens: int, tools: Sequence[Fields]) -> Fields:
        """Return the history as items, the instructions apart."""
        instructions, others = _apart(messages)
        items = [item for message in others for item in _items(message)]
        declared = [{"type": "function", **tool["function"]} for tool in tools]
        return {
            "input": items,
            "max_output_tokens": max_tokens,
            "store": False,
            **({"instructions": instructions} if instructions else {}),
            **({"tools": declared, "tool_choice": "auto"} if tools else {}),
        }

    def read(self, documents: list[Fields]) -> Said:
        """Return the response, which the last event of a stream has too."""
        response = documents[-1].get("response", documents[-1])
        usage = response.get("usage") or {}
        details = usage.get("input_tokens_details") or {}
        output = response.get("output") or []
        parts = (part for item in output for part in item.get("content") or ())
        return Said(
            "".join(part.get("text") or "" for part in parts),
            usage.get("input_tokens", 0),
            details.get("cached_tokens") or 0,
            tuple(output),
        )


class MessagesForm(WireForm):
    """The Messages API."""

    name = "messages"
    path = "/v1/messages"

    def body(self, messages: Messages, max_tokens: int, tools: Sequence[Fields]) -> Fields:
        """Return the history as messages with blocks, results in the user's name."""
        instructions, others = _apart(messages)
        declared = [
            {
                "name": tool["function"]["name"],
                "description": tool["function"]["description"],
                "input_schema": tool["function"]["parameters"],
            }
            for tool in tools
        ]
        return {
            "messages": _merged(map(_blocks_message, others)),
            "max_tokens": max_tokens,
            **({"system": [{"type": "text", "text": instructions}]} if instructions else {}),
            **({"tools": declared} if tools else {}),
        }

    def read(self, documents: list[Fields]) -> Said:
        """Return the text blocks; what came from a cache is a part of the prompt."""
        holders = [document.get("message") or document for document in documents]
        usages = [it["usage"] for it in holders if "input_tokens" in (it.get("usage") or ())]
        usage: Fields = usages[-1] if usages else {}
        cached = usage.get("cache_read_input_tokens") or 0
        fresh = usage.get("input_tokens", 0) + (usage.get("cache_creation_input_tokens") or 0)
        blocks = [block for document in documents for block in document.get("content") or ()]
        deltas = (document.get("delta") or {} for document in documents)
        text = "".join(part.get("text") or "" for part in (*blocks, *deltas))
        return Said(text, fresh + cached, cached)


CHAT: Final = ChatForm()
RESPONSES: Final = ResponsesForm()
MESSAGES: Final = MessagesForm()
FORMS: Final[tuple[WireForm, ...]] = (CHAT, RESPONSES, MESSAGES)


def _last(documents: list[Fields], name: str) -> Fields:
    return next((found[name] for found in reversed(documents) if found.get(name)), {})


def _chat_text(document: Fields) -> str:
    choices = document.get("choices") or ()
    said = (choice.get("message") or choice.get("delta") or {} for choice in choices)
    return "".join(part.get("content") or "" for part in said)


def _apart(messages: Messages) -> tuple[str, Messages]:
    """Return the leading instructions, and the other messages."""
    leading = [it["content"] for it in messages if it["role"] == "system"]
    return "\n\n".join(leading), [it for it in messages if it["role"] != "system"]


def _parts(content: Any, text_type: str) -> Iterator[Fields]:
    """Yield the parts of a content in the words of another API."""
    parts: list[Fields] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
    )
    for part in parts:
        if part["type"] == "text":
            yield {"type": text_type, "text": part["text"]}
        elif text_type == "text":
            kind, _, data = part["image_url"]["url"].partition(";base64,")
            source = {"type": "base64", "media_type": kind.removeprefix("data:"), "data": data}
            yield {"type": "image", "source": source}
        else:
            yield {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}


def _items(message: Fields) -> Iterator[Fields]:
    role, content = message["role"], message.get("content")
    if message.get(OWN):
        yield from message[OWN]
    elif role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": content,
        }
    elif content:
        kind = "output_text" if role == "assistant" else "input_text"
        yield {"type": "message", "role": role, "content": list(_parts(content, kind))}
    for call in message.get("tool_calls") or ():
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def _blocks_message(message: Fields) -> Fields:
    role, content = message["role"], message.get("content")
    if role == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
        return {"role": "user", "content": [{**result, "content": content}]}
    blocks = list(_parts(content, "text")) if content else []
    for call in message.get("tool_calls") or ():
        arguments = json.loads(call["function"]["arguments"])
        use = {"type": "tool_use", "id": call["id"], "name": call["function"]["name"]}
        blocks.append({**use, "input": arguments})
    return {"role": role, "content": blocks}


def _merged(messages: Iterable[Fields]) -> Messages:
    """Put messages of one role in a row together: the API wants roles to alternate."""
    found: Messages = []
    for message in messages:
        if found and found[-1]["role"] == message["role"]:
            found[-1]["content"] += message["content"]
        else:
            found.append(message)
    return found
