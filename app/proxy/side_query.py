"""The question for a summary, as a request of our own."""

import re
from dataclasses import dataclass
from typing import Any

import orjson

from app.chat.conversation import Conversation
from app.chat.splice import dumped, written_messages
from app.proxy.case import Case, references
from app.proxy.seats import Seat
from app.upstream.client import Call
from app.upstream.overflow import overflow_in

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
class Manner:
    """How a model is asked: who it is, how long it may answer, and what fields it will not have."""

    seat: Seat
    max_tokens: int
    unwanted: frozenset[str] = frozenset()


def refused_fields(status: int, said: bytes) -> frozenset[str]:
    """Return the fields of our own that an error complains of; about a size it does not."""
    if overflow_in(status, said) is not None:
        return frozenset()
    named = {name.decode() for name in _DISPENSABLE.findall(said)}
    return frozenset(named | ({"max_tokens"} if _OTHER_MAXIMUM.search(said) else set()))


def ride(case: Case, seen: Conversation, prompt: Prompt, manner: Manner) -> bytes:
    """Return the request that goes on where the upstream's cache ends.

    `seen` is what was sent before, byte for byte; the prompt stands behind it.
    """
    given = case.request.fields
    last = seen.messages[-1] if len(seen) else None
    pause = [] if last is not None and last.is_assistant and not last.calls_tools else [_PAUSE]
    messages = [*references(case, seen), *pause, *prompt]
    fields = {name: given[name] for name in _PROMPT_FIELDS if name in given}
    if given.get("tools"):
        fields["tool_choice"] = "none"
    if "max_completion_tokens" in given:
        fields["max_completion_tokens"] = manner.max_tokens
    written = written_messages(case.request.body, messages, given)
    return _body(written, _settled(fields, case, manner))


def rendered(case: Case, prompt: Prompt, manner: Manner) -> bytes:
    """Return the request with nothing of the client's but what the prompt says."""
    return _body(orjson.dumps(prompt), _settled({}, case, manner))


def call_for(seat: Seat, body: bytes, request_id: str) -> Call:
    """Return the call that takes the question to its model; a stranger learns no request's id."""
    return Call(
        "POST",
        seat.base_url,
        "/chat/completions",
        [
            *seat.credentials,
            (b"content-type", b"application/json"),
            (b"accept", b"text/event-stream"),
            *([(b"x-request-id", request_id.encode("ascii"))] if seat.is_own else []),
        ],
        body,
    )


def _settled(fields: dict[str, Any], case: Case, manner: Manner) -> dict[str, Any]:
    """Return the fields with those that make the answer a summary: short, calm, streamed."""
    policy, seat, unwanted = case.policy.summary, manner.seat, manner.unwanted
    fields = {"model": seat.model, **fields, "stream": True}
    if "stream_options" not in unwanted:
        fields["stream_options"] = {"include_usage": True}
    is_openai = seat.kind == "openai"
    if "max_completion_tokens" not in fields:
        is_new = is_openai or "max_tokens" in unwanted
        fields["max_completion_tokens" if is_new else "max_tokens"] = manner.max_tokens
    if policy.temperature is not None and not is_openai and "temperature" not in unwanted:
        fields["temperature"] = policy.temperature
    if seat.kind in _THINKING_SWITCH and "chat_template_kwargs" not in unwanted:
        switches = fields.get("chat_template_kwargs")
        given = switches if isinstance(switches, dict) else {}
        fields["chat_template_kwargs"] = {**given, "enable_thinking": False}
    return fields | dict(policy.extra_body)


def _body(messages: bytes, fields: dict[str, Any]) -> bytes:
    head = orjson.dumps({"model": fields.pop("model")})
    return head[:-1] + b',"messages":' + messages + b"," + dumped(fields)[1:]
