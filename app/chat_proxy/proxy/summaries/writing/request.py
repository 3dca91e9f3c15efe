"""The summary query: the proxy's own request to a summary model."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.recall.tool import DEFINITION
from chat_proxy.proxy.session.request import CompactionRequest
from chat_proxy.proxy.summaries.writing.models import SummaryModel
from chat_proxy.upstream.client import Call
from chat_proxy.upstream.overflow import overflow_in
from chat_proxy.wires.answers import AnswerForm
from chat_proxy.wires.body import exact_fields, query_body, tools_with, wire_of, written
from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS
from chat_proxy.wires.wire import Query, Wire

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
    request = compaction.request
    last = seen.messages[-1] if len(seen) else None
    bridge = [] if last is not None and last.is_assistant and not last.calls_tools else [_BRIDGE]
    items, changed = written(request, compaction.conversation, seen)
    wire, given = wire_for(compaction, options), {**exact_fields(request), **changed}
    if compaction.offers_recall and _is_cut(compaction.conversation, seen):
        given["tools"] = tools_with(wire, given, DEFINITION)
    fields = _query_fields(given, compaction, options)
    return query_body(request, wire, items, [*bridge, *prompt], fields)


def _is_cut(client: Conversation, seen: Conversation) -> bool:
    """Return whether a prompt shows the client's messages shortened or folded."""
    pairs = zip(seen.origins, seen.fields, strict=True)
    return any(origin is None or fields is not client.fields[origin] for origin, fields in pairs)


def rendered(compaction: CompactionRequest, prompt: Prompt, options: QueryOptions) -> bytes:
    """Return a query that contains nothing of the client's request but the prompt."""
    fields = _query_fields({}, compaction, options)
    return query_body(compaction.request, wire_for(compaction, options), [], prompt, fields)


def wire_for(compaction: CompactionRequest, options: QueryOptions) -> Wire:
    """Return the wire of a query: the request's own for its own model, else chat completions."""
    is_own = options.summary_model.is_own
    return wire_of(compaction.request) if is_own else CHAT_COMPLETIONS


def call_for(
    summary_model: SummaryModel, compaction: CompactionRequest, body: bytes
) -> tuple[Call, AnswerForm]:
    """Return the call that sends a query, and the form of its answer.

    Only the request's own model gets the request id.
    """
    wire = wire_for(compaction, QueryOptions(summary_model, 0))
    own_id = (b"x-request-id", compaction.request_id.encode("ascii"))
    call = Call(
        "POST",
        summary_model.base_url,
        wire.path,
        [
            *summary_model.credentials,
            *wire.query_headers,
            (b"content-type", b"application/json"),
            (b"accept", b"text/event-stream"),
            (b"x-chat-proxy-purpose", b"summary"),
            *([own_id] if summary_model.is_own else []),
        ],
        body,
    )
    return call, wire.answers


def _query_fields(
    given: dict[str, Any], compaction: CompactionRequest, options: QueryOptions
) -> dict[str, Any]:
    """Return the fields of a query: output limit, temperature, streaming, the operator's own."""
    policy, summary_model = compaction.policy.summary, options.summary_model
    has_temperature = (
        summary_model.kind != "openai" and "temperature" not in options.rejected_fields
    )
    temperature = policy.temperature if has_temperature else None
    wire = wire_for(compaction, options)
    query = Query(summary_model.model, options.max_tokens, temperature)
    fields = wire.query_fields(given, query)
    if wire is CHAT_COMPLETIONS:
        fields = _with_chat_fields(fields, options)
    return fields | dict(policy.extra_body)


def _with_chat_fields(fields: dict[str, Any], options: QueryOptions) -> dict[str, Any]:
    """Return the fields with those that servers of chat completions may refuse."""
    summary_model, rejected_fields = options.summary_model, options.rejected_fields
    if "stream_options" not in rejected_fields:
        fields["stream_options"] = {"include_usage": True}
    if "max_completion_tokens" not in fields:
        is_new = summary_model.kind == "openai" or "max_tokens" in rejected_fields
        fields["max_completion_tokens" if is_new else "max_tokens"] = options.max_tokens
    if summary_model.kind in _THINKING_SWITCH and "chat_template_kwargs" not in rejected_fields:
        switches = fields.get("chat_template_kwargs")
        given = switches if isinstance(switches, dict) else {}
        fields["chat_template_kwargs"] = {**given, "enable_thinking": False}
    return fields
