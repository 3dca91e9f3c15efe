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


def tokenize_url(base_url: str) -> str:
    """Return the address at which vLLM and llama.cpp tokenize."""
    return base_url.removesuffix("/v1") + "/tokenize"


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
        _Way(tokenize_url, tokenize_body, "count"),
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
_TEXT_BODIES: Final[dict[UpstreamKind, Callable[[str, str], Fields]]] = {
    "vllm": lambda model, text: {"model": model, "prompt": text, "add_special_tokens": False},
    "llama.cpp": lambda _, text: {"content": text, "add_special": False},
}
"""The bodies by which engines are asked to tokenize a text, by model and text."""


class Asked(NamedTuple):
    """Which engine is asked, about which model, and with whose credentials."""

    kind: UpstreamKind
    base_url: str
    model: str
    credentials: RawHeaders


async def count_tokens(upstream: Upstream, asked: Asked, request: Fields) -> int:
    """Return the engine's own count; raise NoCountEndpoint or UpstreamError without one."""
    for way in _WAYS.get(asked.kind, ()):
        body = way.body(request)
        if body is None:
            continue
        answer = await _answer(upstream, way.url(asked.base_url), body, asked.credentials)
        if answer is not None:
            return _checked(answer.get(way.field))
    raise NoCountEndpoint


async def count_text_tokens(upstream: Upstream, asked: Asked, text: str) -> int:
    """Return the tokens of a text alone; raise NoCountEndpoint or UpstreamError without them."""
    body_of = _TEXT_BODIES.get(asked.kind)
    if body_of is None:
        raise NoCountEndpoint
    body = body_of(asked.model, text)
    answer = await _answer(upstream, tokenize_url(asked.base_url), body, asked.credentials)
    if answer is None:
        raise NoCountEndpoint
    tokens = answer.get("tokens")
    return _checked(answer.get("count") or (len(tokens) if type(tokens) is list else None))


async def _answer(
    upstream: Upstream, url: str, body: Fields, credentials: RawHeaders
) -> Fields | None:
    """Return the engine's answer, None if it has no such endpoint; raise UpstreamError."""
    headers = [
        (b"accept", b"application/json"),
        (b"content-type", b"application/json"),
        (b"x-chat-proxy-purpose", b"tokenize"),
        *credentials,
    ]
    try:
        async with asyncio.timeout(COUNT_SECONDS):
            response = await upstream.fetch("POST", url, headers, orjson.dumps(body))
    except TimeoutError:
        raise UpstreamFirstByteTimeout from None
    status = response.status_code
    if status in _MISSING:
        return None
    if status != 200:
        raise UpstreamError(f"The upstream answered {status} to a request for a token count.")
    try:
        document = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        raise UpstreamError("The upstream's token count is not JSON.") from None
    return document if type(document) is dict else {}


def _checked(count: object) -> int:
    if type(count) is not int or count <= 0:
        raise UpstreamError("The upstream's token count is no number.")
    return count
