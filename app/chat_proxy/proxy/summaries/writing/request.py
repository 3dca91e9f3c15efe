"""The summary query: the proxy's own request to a summary model."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.body.splice import serialise_messages
from chat_proxy.chat.conversation import Conversation
from chat_proxy.proxy.session.request import CompactionRequest, references
from chat_proxy.proxy.summaries.writing.models import SummaryModel
from chat_proxy.upstream.client import Call
from chat_proxy.upstream.overflow import overflow_in

# The fields from which a server renders the prompt; without them it would be another prompt.
_PROMPT_FIELDS = (
    "tools",
    # As the client sent it: SGLang leaves the tools out of the prompt for "none", so that only the
    # first few tokens would be cached.
    "tool_choice",
    "functions",
    "function_call",
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
_OPTIONAL_FIELDS = re.compile(rb"\b(temperature|chat_template_kwargs|stream_options)\b")
_OTHER_MAXIMUM = re.compile(rb"\bmax_tokens\b.*\bmax_completion_tokens\b", re.DOTALL)
_BRIDGE = {"role": "assistant", "content": "Understood."}

Prompt = list[dict[str, str]]
MakeBody = Callable[[frozenset[str]], bytes]
"""Returns the body of a query without these fields, which the model refuses."""


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """The options of a query: the model, the maximum of the answer, the fields it refuses."""

    summary_model: SummaryModel
    max_tokens: int
    rejected_fields: frozenset[str] = frozenset()


def refused_fields(status: int, error_body: bytes) -> frozenset[str]:
    """Return the fields of our own that an error names; none if it is about the size."""
    if overflow_in(status, error_body) is not None:
        return frozenset()
    named = {name.decode() for name in _OPTIONAL_FIELDS.findall(error_body)}
    return frozenset(named | ({"max_tokens"} if _OTHER_MAXIMUM.search(error_body) else set()))


def requires_tool_call(fields: dict[str, Any]) -> bool:
    """Return whether a request lets the model answer with a tool call only."""
    choice = fields.get("tool_choice") or fields.get("function_call")
    if not isinstance(choice, dict):
        return choice == "required"
    allowed = choice.get("allowed_tools")
    return not isinstance(allowed, dict) or allowed.get("mode") == "required"


def ride(
    compaction: CompactionRequest, seen: Conversation, prompt: Prompt, options: QueryOptions
) -> bytes:
    """Return a query that continues the prompt which the upstream has cached.

    `seen` is the conversation that was sent before, byte for byte; the prompt follows it.
    """
    given = compaction.request.fields
    last = seen.messages[-1] if len(seen) else None
    bridge = [] if last is not None and last.is_assistant and not last.calls_tools else [_BRIDGE]
    messages = [*references(compaction, seen), *bridge, *prompt]
    fields = {name: given[name] for name in _PROMPT_FIELDS if name in given}
    if "max_completion_tokens" in given:
        fields["max_completion_tokens"] = options.max_tokens
    written = serialise_messages(compaction.request.body, messages, given)
    return _body(written, _with_query_fields(fields, compaction, options))


def rendered(compaction: CompactionRequest, prompt: Prompt, options: QueryOptions) -> bytes:
    """Return a query that contains nothing of the client's request but the prompt."""
    return _body(orjson.dumps(prompt), _with_query_fields({}, compaction, options))


def call_for(summary_model: SummaryModel, body: bytes, request_id: str) -> Call:
    """Return the call that sends a query; only the request's own model gets the request id."""
    return Call(
        "POST",
        summary_model.base_url,
        "/chat/completions",
        [
            *summary_model.credentials,
            (b"content-type", b"application/json"),
            (b"accept", b"text/event-stream"),
            (b"x-chat-proxy-purpose", b"summary"),
            *([(b"x-request-id", request_id.encode("ascii"))] if summary_model.is_own else []),
        ],
        body,
    )


def _with_query_fields(
    fields: dict[str, Any], compaction: CompactionRequest, options: QueryOptions
) -> dict[str, Any]:
    """Return the fields with those of a query: output limit, temperature, streaming."""
    policy, summary_model, rejected_fields = (
        compaction.policy.summary,
        options.summary_model,
        options.rejected_fields,
    )
    fields = {"model": summary_model.model, **fields, "stream": True}
    if "stream_options" not in rejected_fields:
        fields["stream_options"] = {"include_usage": True}
    is_openai = summary_model.kind == "openai"
    if "max_completion_tokens" not in fields:
        is_new = is_openai or "max_tokens" in rejected_fields
        fields["max_completion_tokens" if is_new else "max_tokens"] = options.max_tokens
    if policy.temperature is not None and not is_openai and "temperature" not in rejected_fields:
        fields["temperature"] = policy.temperature
    if summary_model.kind in _THINKING_SWITCH and "chat_template_kwargs" not in rejected_fields:
        switches = fields.get("chat_template_kwargs")
        given = switches if isinstance(switches, dict) else {}
        fields["chat_template_kwargs"] = {**given, "enable_thinking": False}
    return fields | dict(policy.extra_body)


def _body(messages: bytes, fields: dict[str, Any]) -> bytes:
    head = orjson.dumps({"model": fields.pop("model")})
    return head[:-1] + b',"messages":' + messages + b"," + serialise(fields)[1:]
