"""Asking an engine how many tokens a chat request has, by the ways that engines offer."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from chat_proxy.errors import UpstreamError, UpstreamFirstByteTimeout
from chat_proxy.http.headers import RawHeaders
from chat_proxy.tokens.overheads import UpstreamKind
from chat_proxy.upstream.client import Upstream

COUNT_SECONDS: Final = 20
_TEXTS_OF_RESPONSES: Final = frozenset({"input_text", "output_text"})
_MISSING: Final = frozenset((404, 405, 501))

Fields = Mapping[str, Any]


class NoCountEndpoint(Exception):
    """The engine, or a gateway in front of it, offers none of the known ways."""


class _Way(NamedTuple):
    """One way to ask: the address, the body (None if it cannot have the request), the answer."""

    url: Callable[[str], str]
    body: Callable[[Fields], Fields | None]
    field: str


def tokenize_body(request: Fields) -> Fields | None:
    """Return the body for vLLM's `/tokenize`, which renders a chat as the chat endpoint does."""
    kept = ("model", "messages", "tools", "chat_template_kwargs")
    return in_chat_words({name: request[name] for name in kept if name in request})


def chat_body(request: Fields) -> Fields | None:
    """Return the body for llama.cpp's count of a chat: the chat itself."""
    return in_chat_words({**request, "stream": False})


def in_chat_words(request: Fields) -> Fields:
    """Return a request whose texts have the type of chat: llama.cpp refuses that of Responses."""
    messages = request.get("messages")
    if type(messages) is not list:
        return request
    return {**request, "messages": [_with_chat_texts(message) for message in messages]}


def _with_chat_texts(message: Fields) -> Fields:
    parts = message.get("content")
    if type(parts) is not list:
        return message
    texts = [
        {"type": "text", "text": part.get("text")}
        if type(part) is dict and part.get("type") in _TEXTS_OF_RESPONSES
        else part
        for part in parts
    ]
    return {**message, "content": texts}


def messages_body(request: Fields) -> Fields | None:
    """Return the body for an Anthropic-style `count_tokens`; None for more than plain texts."""
    system: list[str] = []
    messages: list[dict[str, str]] = []
    for message in request["messages"]:
        role, content = message.get("role"), message.get("content")
        if message.keys() != {"role", "content"} or type(content) is not str:
            return None
        if role in ("system", "developer") and not messages:
            system.append(content)
        elif role in ("user", "assistant"):
            messages.append({"role": role, "content": content})
        else:
            return None
    if request.get("tools") or not messages:
        return None
    body = {"model": request.get("model", ""), "messages": messages}
    return {**body, "system": "\n\n".join(system)} if system else body


_COUNT_TOKENS: Final = _Way(
    lambda base_url: f"{base_url}/messages/count_tokens", messages_body, "input_tokens"
)
_WAYS: Final[dict[UpstreamKind, tuple[_Way, ...]]] = {
    "vllm": (
        # At the root, and not covered by the engine's own key.
        _Way(lambda base_url: base_url.removesuffix("/v1") + "/tokenize", tokenize_body, "count"),
        _COUNT_TOKENS,
    ),
    "llama.cpp": (
        _Way(
            lambda base_url: f"{base_url}/chat/completions/input_tokens", chat_body, "input_tokens"
        ),
        _COUNT_TOKENS,
    ),
}
COUNTING_KINDS: Final = frozenset(_WAYS)
"""The engines that are asked; hosted APIs never are."""


async def count_tokens(
    upstream: Upstream, kind: UpstreamKind, base_url: str, request: Fields, credentials: RawHeaders
) -> int:
    """Return the engine's own count; raise NoCountEndpoint or UpstreamError without one."""
    headers = [
        (b"accept", b"application/json"),
        (b"content-type", b"application/json"),
        *credentials,
    ]
    for way in _WAYS.get(kind, ()):
        body = way.body(request)
        if body is None:
            continue
        content = orjson.dumps(body)
        try:
            async with asyncio.timeout(COUNT_SECONDS):
                response = await upstream.fetch("POST", way.url(base_url), headers, content)
        except TimeoutError:
            raise UpstreamFirstByteTimeout from None
        if response.status_code in _MISSING:
            continue
        return _count_in(response.status_code, response.content, way.field)
    raise NoCountEndpoint


def _count_in(status: int, content: bytes, field: str) -> int:
    if status != 200:
        raise UpstreamError(f"The upstream answered {status} to a request for a token count.")
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise UpstreamError("The upstream's token count is not JSON.") from None
    count = document.get(field) if type(document) is dict else None
    if type(count) is not int or count <= 0:
        raise UpstreamError("The upstream's token count is no number.")
    return count
