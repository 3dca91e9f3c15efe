"""The question for a summary, as a request of our own."""

import re
from dataclasses import dataclass
from typing import Any

import orjson

from chat_proxy.chat.body.splice import dumped, written_messages
from chat_proxy.chat.conversation import Conversation
from chat_proxy.proxy.session.request import CompactionRequest, references
from chat_proxy.proxy.summaries.models import SummaryModel
from chat_proxy.upstream.client import Call
from chat_proxy.upstream.overflow import overflow_in

# What a template or its server renders the prompt from; anything else would be another prompt.
_PROMPT_FIELDS = (
    "tools",
    "functions",
    "documents",
    "chat_template",
    "chat_template_kwargs",
    "mm_processor_kwargs",
    "media_io_kwargs",
    "prompt_cache_key",
    "cache_salt",
    "user",
    "safety_identifier",
)
_THINKING_SWITCH = ("vllm", "sglang", "llama.cpp")
_DISPENSABLE = re.compile(rb"\b(temperature|chat_template_kwargs|stream_options)\b")
_OTHER_MAXIMUM = re.compile(rb"\bmax_tokens\b.*\bmax_completion_tokens\b", re.DOTALL)
_PAUSE = {"role": "assistant", "content": "Understood."}

Prompt = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How a model is asked: who it is, how long it may answer, and what fields it will not have."""

    summary_model: SummaryModel
    max_tokens: int
    unwanted: frozenset[str] = frozenset()


def refused_fields(status: int, said: bytes) -> frozenset[str]:
    """Return the fields of our own that an error complains of; about a size it does not."""
    if overflow_in(status, said) is not None:
        return frozenset()
    named = {name.decode() for name in _DISPENSABLE.findall(said)}
    return frozenset(named | ({"max_tokens"} if _OTHER_MAXIMUM.search(said) else set()))


def ride(
    compaction: CompactionRequest, seen: Conversation, prompt: Prompt, options: QueryOptions
) -> bytes:
    """Return the request that goes on where the upstream's cache ends.

    `seen` is what was sent before, byte for byte; the prompt stands behind it.
    """
    given = compaction.request.fields
    last = seen.messages[-1] if len(seen) else None
    pause = [] if last is not None and last.is_assistant and not last.calls_tools else [_PAUSE]
    messages = [*references(compaction, seen), *pause, *prompt]
    fields = {name: given[name] for name in _PROMPT_FIELDS if name in given}
    if given.get("tools"):
        fields["tool_choice"] = "none"
    if "max_completion_tokens" in given:
        fields["max_completion_tokens"] = options.max_tokens
    written = written_messages(compaction.request.body, messages, given)
    return _body(written, _settled(fields, compaction, options))


def rendered(compaction: CompactionRequest, prompt: Prompt, options: QueryOptions) -> bytes:
    """Return the request with nothing of the client's but what the prompt says."""
    return _body(orjson.dumps(prompt), _settled({}, compaction, options))


def call_for(summary_model: SummaryModel, body: bytes, request_id: str) -> Call:
    """Return the call that takes the question to its model; a stranger learns no request's id."""
    return Call(
        "POST",
        summary_model.base_url,
        "/chat/completions",
        [
            *summary_model.credentials,
            (b"content-type", b"application/json"),
            (b"accept", b"text/event-stream"),
            *([(b"x-request-id", request_id.encode("ascii"))] if summary_model.is_own else []),
        ],
        body,
    )


def _settled(
    fields: dict[str, Any], compaction: CompactionRequest, options: QueryOptions
) -> dict[str, Any]:
    """Return the fields with those that make the answer a summary: short, calm, streamed."""
    policy, summary_model, unwanted = (
        compaction.policy.summary,
        options.summary_model,
        options.unwanted,
    )
    fields = {"model": summary_model.model, **fields, "stream": True}
    if "stream_options" not in unwanted:
        fields["stream_options"] = {"include_usage": True}
    is_openai = summary_model.kind == "openai"
    if "max_completion_tokens" not in fields:
        is_new = is_openai or "max_tokens" in unwanted
        fields["max_completion_tokens" if is_new else "max_tokens"] = options.max_tokens
    if policy.temperature is not None and not is_openai and "temperature" not in unwanted:
        fields["temperature"] = policy.temperature
    if summary_model.kind in _THINKING_SWITCH and "chat_template_kwargs" not in unwanted:
        switches = fields.get("chat_template_kwargs")
        given = switches if isinstance(switches, dict) else {}
        fields["chat_template_kwargs"] = {**given, "enable_thinking": False}
    return fields | dict(policy.extra_body)


def _body(messages: bytes, fields: dict[str, Any]) -> bytes:
    head = orjson.dumps({"model": fields.pop("model")})
    return head[:-1] + b',"messages":' + messages + b"," + dumped(fields)[1:]
