"""The attributes of spans: names of OpenTelemetry's conventions, and `chat_proxy.*` of our own.

No text of a conversation, no header and no key is among them.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from chat_proxy.telemetry.printable import printable, without_surrogates
from chat_proxy.telemetry.record import CHAT_ROUTES, MODEL_CHARS, RequestRecord, milliseconds

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]

OPERATIONS: Final = {
    **dict.fromkeys(CHAT_ROUTES, "chat"),
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
"""The conventions' names of what a route does; the other routes have none."""
PROVIDERS: Final = {"messages": "anthropic"}
"""Whose API a wire is; all others are OpenAI's."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REUSED = "reused"
REMEMBERED_ADDRESSES = 1_000


def name_of(record: RequestRecord) -> str:
    """Return the name of a request's span, from closed sets."""
    method = record.method if record.method in _METHODS else "HTTP"
    return f"{method} {record.route}"


def first_attributes(record: RequestRecord) -> dict[str, Value]:
    """Return what is known when a request begins: a sampler may decide by it."""
    method = record.method if record.method in _METHODS else "_OTHER"
    return {"http.request.method": method, "http.route": record.route}


def last_attributes(record: RequestRecord) -> dict[str, Value]:
    """Return what is known when a request has ended."""
    found: dict[str, Value] = {
        "http.response.status_code": record.status,
        "chat_proxy.request_id": record.request_id,
        "chat_proxy.bytes_in": record.bytes_in,
        "chat_proxy.bytes_out": record.bytes_out,
    }
    if record.code:
        found["error.type"] = record.code
        found["chat_proxy.phase"] = record.phase
    if record.reason:
        found["chat_proxy.reason"] = without_surrogates(record.reason)
    found |= request_attributes(record)
    if record.upstream:
        found["chat_proxy.upstream"] = record.upstream
    found |= _times(record)
    if wire := record.wire:
        found |= {"chat_proxy.wire": wire, **_of_chat(record)}
    if record.prompt_tokens:
        used = record.prompt_tokens, record.completion_tokens, record.cached_tokens
        found |= usage_attributes(*used)
    return found


def request_attributes(record: RequestRecord) -> dict[str, Value]:
    """Return what the conventions want of a client's request; the API stands for its provider."""
    operation = OPERATIONS.get(record.route, "")
    provider = PROVIDERS.get(record.wire, "openai") if operation else ""
    found = model_attributes(operation, record.model)
    return {**found, "gen_ai.provider.name": provider} if provider else found


def model_attributes(operation: str, model: str) -> dict[str, Value]:
    """Return what the conventions want of a request to a model, as far as it is known."""
    found = {"gen_ai.operation.name": operation, "gen_ai.request.model": model_name(model)}
    return {name: value for name, value in found.items() if value}


def model_name(model: str) -> str:
    """Return a model's name as the exporter can encode it: the client chooses it."""
    return printable(without_surrogates(model))[:MODEL_CHARS]


def usage_attributes(prompt: int, completion: int, cached: int) -> dict[str, Value]:
    """Return the model server's own token counts."""
    return {
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.output_tokens": completion,
        "gen_ai.usage.cache_read.input_tokens": cached,
    }


@lru_cache(REMEMBERED_ADDRESSES)
def address_attributes(base_url: str) -> Attributes:
    """Return the address of a model server, which comes from the configuration."""
    url = urlsplit(base_url)
    port = url.port or (443 if url.scheme == "https" else 80)
    return {"server.address": url.hostname or "", "server.port": port}


def _times(record: RequestRecord) -> dict[str, Value]:
    found: dict[str, Value] = {}
    if record.proxy_seconds is not None:
        found["chat_proxy.proxy_ms"] = milliseconds(record.proxy_seconds)
        found["chat_proxy.summary_wait_ms"] = milliseconds(record.summary_wait_seconds)
    if record.upstream_seconds is not None:
        found["chat_proxy.upstream_ms"] = milliseconds(record.upstream_seconds)
    return found


def _of_chat(record: RequestRecord) -> dict[str, Value]:
    """Return what was done to a chat's prompt."""
    found: dict[str, Value] = {
        "gen_ai.request.stream": record.streams,
        "chat_proxy.mode": record.mode,
        "chat_proxy.compaction": record.compaction,
        "chat_proxy.checkpoint_reused": record.compaction == REUSED,
        "chat_proxy.new_compaction": record.is_break,
        "chat_proxy.stages": record.stages,
        "chat_proxy.replays": record.replays,
    }
    if record.conversation:
        found["gen_ai.conversation.id"] = record.conversation
    if record.failed_stages:
        found["chat_proxy.failed_stages"] = record.failed_stages
    if record.tokens_before is not None:
        found["chat_proxy.tokens_before"] = record.tokens_before
        found["chat_proxy.tokens_after"] = record.tokens_after or 0
        found["chat_proxy.messages_before"] = record.messages_before
        found["chat_proxy.messages_after"] = record.messages_after
    if record.window:
        found["chat_proxy.window"] = record.window
        found["chat_proxy.window_source"] = record.window_source
    return found
